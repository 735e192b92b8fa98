"""What a master must know to pass reads on."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quadlog.master.node.node import Node
    from quadlog.master.workers.worker_registry import WorkerRegistry


class ReadView(Protocol):
    """What a master must know to pass reads on."""

    @property
    def worker_registry(self) -> WorkerRegistry:
        """The workers of this data centre."""
        ...

    @property
    def shown(self) -> int:
        """Index that a read of consistency `session` must show."""
        ...

    @property
    def agreed(self) -> int:
        """Index of the last entry that this master knows to be agreed, and that may be evaluated."""
        ...

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index; None if it is not known."""
        ...

    @property
    def elsewhere(self) -> Sequence[str]:
        """URLs of masters of other data centres that may show what no worker here can show.

        Empty if they are not needed.
        """
        ...


class NodeReadView:
    """What a node knows."""

    def __init__(self, node: Node, urls: Mapping[str, str] = MappingProxyType({})) -> None:
        """`node`: read on every access; `urls`: addresses of other masters."""
        self._node, self._urls = node, urls

    @property
    def worker_registry(self) -> WorkerRegistry:
        """The workers of this data centre."""
        return self._node.worker_registry

    @property
    def shown(self) -> int:
        """Index that shows everything that was acknowledged here."""
        return self._node.pending_requests.shown

    @property
    def agreed(self) -> int:
        """Index of the last entry of the own log that may be evaluated: none after an undecided synchronous one."""
        return self._node.due

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash that the own log has at an index."""
        return self._node.store.chain_at(index)

    @property
    def elsewhere(self) -> Sequence[str]:
        """URLs of the view's members in other data centres, the home's first.

        Empty unless the own effects topic lacks effects that were acknowledged here.
        """
        if not self._node.pending_effects.is_begun:
            return ()
        view, here = self._node.cluster.view, self._node.dc
        names = [name for name in view.members if self._node.dc_of[name] != here and name in self._urls]
        names.sort(key=lambda name: self._node.dc_of[name] != view.home)
        return [self._urls[name] for name in names]
