"""Comparison of the settings that all masters share: the files of two masters, and a file with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.cluster_settings import SETTINGS, ClusterSettings
from quadlog.master.workers.alarms import AlarmName, Trouble

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import AgreedSetting, Post


class SharedSettings:
    """The settings of one master's file, compared with what counts and with other masters' files."""

    def __init__(self, node: str, files: ClusterSettings, given: Container[str]) -> None:
        """`files`: values of the file of `node`; `given`: fields that it names."""
        default = ClusterSettings()
        self._node = node
        self._mine: Final = {name: files.text(name) for name in SETTINGS}
        self._default: Final = {name: default.text(name) for name in SETTINGS}
        self._given: Final = [name for name, setting in SETTINGS.items() if setting.field in given]

    def troubles(self, agreement: Agreement) -> Iterator[Trouble]:
        """Yield a trouble for each setting whose values differ."""
        agreed = {one.name: one for one in agreement.standing.settings}
        yield from self._with_log(agreed)
        for peer in agreement.peers:
            member = agreement.members.get(peer.node)
            if peer.node != self._node and member is not None and member.said is not None:
                yield from self._with(member.said, agreed)

    def _with_log(self, agreed: Mapping[str, AgreedSetting]) -> Iterator[Trouble]:
        """Yield a trouble for each setting that the file names and an entry has set otherwise."""
        for name in self._given:
            one = agreed.get(name)
            if one is not None and one.value != self._mine[name]:
                yield self._trouble(
                    name,
                    f"{self._node} has {self._mine[name]} in its file, and entry {one.index} has set {one.value}",
                )

    def _with(self, post: Post, agreed: Container[str]) -> Iterator[Trouble]:
        """Yield a trouble for each setting that no entry has set and that another master's file has otherwise."""
        theirs = self._default | {one.name: one.value for one in post.settings if not one.index}
        set_there = {one.name for one in post.agreed_settings}
        for name, mine in self._mine.items():
            if name not in agreed and name not in set_there and theirs[name] != mine:
                yield self._trouble(
                    name, f"{self._node} has {mine} by its file, and {post.node} has {theirs[name]}"
                )

    def _trouble(self, name: str, reason: str) -> Trouble:
        return Trouble(name=AlarmName.SETTINGS_DIFFER, setting=name, value=self._mine[name], reason=reason)
