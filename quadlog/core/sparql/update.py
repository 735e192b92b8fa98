"""SPARQL update text, parsed to operations that say exactly what they mean."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.forms import FormParser
from quadlog.core.sparql.planning import NoPlan, plan_of
from quadlog.core.sparql.text.caution import is_tame
from quadlog.core.sparql.text.skeleton import taken_apart
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX, check_update
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.sparql.operations import Operation
    from quadlog.core.sparql.plan import Plan
    from quadlog.core.sparql.text.skeleton import Skeleton
    from quadlog.core.sparql.using import Using

PLANNED: Final = 8 * 1024
"""Characters of a text that a plan may be made for: longer ones are seldom alike."""

PLANS: Final = 128
"""Skeletons that are remembered: 17 MB if all have plans and are as long as that, with 250 quads each."""


def parse_update(text: str, *, tx_id: bytes, using: Using | None = None) -> tuple[Operation, ...]:
    """The operations of an update, as a function of text, dataset and transaction id alone.

    Terms are as oxigraph stores them, and blank nodes get labels derived from the id.

    >>> parse_update("INSERT DATA { <urn:s> a 01 }", tx_id=b"1")[0].quads[0].object.value
    '1'

    Raises:
        SyntaxRefused: not SPARQL; with line and column.
        UserError: it names a dataset, and has got one already.
        Unsupported: SPARQL, but not (wholly) understood.
        Forbidden: it names a reserved graph.
    """
    if using is not None or len(text) > PLANNED or RESERVED_PREFIX in text:
        return read_update(text, tx_id=tx_id, using=using)
    skeleton, constants = taken_apart(text)
    known = _known(skeleton)
    if known.plan is not None and (planned := known.plan.operations(constants, tx_id)) is not None:
        return planned
    operations = read_update(text, tx_id=tx_id)
    known.learn(constants, tx_id, operations)
    return operations


def read_update(text: str, *, tx_id: bytes, using: Using | None = None) -> tuple[Operation, ...]:
    """As `parse_update`, read from the first token to the last."""
    try:
        operations = tuple(FormParser(text, tx_id, using).operations())
    except UserError:
        # The authority has the better message and the last word on what is SPARQL, unless the
        # text could crash it.
        if is_tame(text):
            check_update(text)
        raise
    check_update(text)
    return operations


class _Known:
    """A skeleton that was met; with the second good text of it comes a plan, if there can be one."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._skeleton = skeleton
        self._texts = 0
        self.plan: Plan | None = None

    def learn(self, constants: Sequence[str], tx_id: bytes, operations: tuple[Operation, ...]) -> None:
        """Take in what another text of it says."""
        self._texts += 1
        if self._texts == 2:  # noqa: PLR2004 - one that is met once is not worth a second reading
            try:
                plan = plan_of(self._skeleton)
            except NoPlan:
                return
            if plan.operations(constants, tx_id) == operations:
                self.plan = plan


@lru_cache(maxsize=PLANS)
def _known(skeleton: Skeleton) -> _Known:
    return _Known(skeleton)
