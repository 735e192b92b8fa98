"""Controls: evaluated on the state that an entry would leave, before its effect is published.

These are the evaluating worker's own: its controls are as far ahead of the store's as its effects are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, assert_never

from quadlog.core.effects.control import ControlKind, after, change_of, concerns
from quadlog.core.model import TransactionKind
from quadlog.core.sparql.text.volatile import settled
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quadlog.core.effects.control import Control
    from quadlog.core.records import LoggedEntry
    from quadlog.core.sparql.operations import Operation
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.evaluate.limits import EvaluationObserver
    from quadlog.worker.evaluate.shapes import Shapes

LONG_REPORT: Final = 64 * 1024
"""Bytes of a report, at most.

It is stored in one record of the effects, which has room for 512 KiB, and masters keep it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of the evaluation of one control."""

    name: str
    kind: ControlKind
    report: str | None
    """Why the control does not hold; None: it holds."""

    @property
    def reason(self) -> str | None:
        """Why a transaction is rejected because of the control; None: it is not."""
        return None if self.report is None else f"control {self.name}: {self.report}"

    def answer(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind.value, "holds": self.report is None}
        return found if self.report is None else found | {"report": self.report}


class Controls:
    """Controls that are in force in the state that the evaluator has reached."""

    def __init__(
        self,
        store: QuadStore,
        watch: EvaluationObserver,
        foresee: Callable[[Verdict], None] | None = None,
    ) -> None:
        """Start with the controls of the store, on which they are evaluated.

        `foresee` is called with each verdict; if it is given, all controls are evaluated, whatever their verdicts are.
        """
        self._store, self._watch, self._foresee = store, watch, foresee
        self._all: Mapping[str, Control] = store.controls
        self._shapes: dict[str, tuple[Control, Shapes]] = {}
        """Controls and their parsed shapes, by name."""

    def concern(self, entry: LoggedEntry, operations: Sequence[Operation] | str) -> bool:
        """Return True if any control may have to be evaluated for an entry."""
        if not self._all and entry.kind is TransactionKind.TX:
            return False
        return not isinstance(operations, str) and (bool(operations) or concerns(entry))

    def concern_unchanged(self) -> bool:
        """Return True if controls are evaluated even if nothing changes, only to report their verdicts."""
        return self._foresee is not None

    def decided(self, entry: LoggedEntry) -> None:
        """Apply an entry that `concerns` controls, because it was decided."""
        self._all = after(self._all, [change_of(entry)])
        self._shapes = {name: found for name, found in self._shapes.items() if name in self._all}

    def broken_by(self, entry: LoggedEntry) -> str | None:
        """Return why the state that an entry leaves is not allowed, or None; the store must have that state."""
        broken: list[Verdict] = []
        for control in self._all.values():
            verdict = self._verdict(control, entry)
            if self._foresee is not None:
                self._foresee(verdict)
            if verdict.report is not None:
                broken.append(verdict)
                if self._foresee is None:
                    break
        return broken[0].reason if broken else None

    def broken_with(self, entry: LoggedEntry) -> str | None:
        """Return why the store's state does not allow the change of a control by a CONFIG entry, or None."""
        change = change_of(entry)
        if change.control is not None:
            return self._verdict(change.control, entry, is_new=True).reason
        return None if change.name in self._all else f"control {change.name}: there is none of this name"

    def _verdict(self, control: Control, entry: LoggedEntry, *, is_new: bool = False) -> Verdict:
        self._watch.control(control.name)
        try:
            report = self._report(control, entry, is_new=is_new)
        except UserError as error:
            report = f"it cannot be evaluated: {error}"
        return Verdict(
            name=control.name, kind=control.kind, report=None if report is None else _shortened(report)
        )

    def _report(self, control: Control, entry: LoggedEntry, *, is_new: bool) -> str | None:
        seed = entry.id + control.name.encode()
        visible = self._store.visible(partial(settled, seed=seed, created=entry.created))
        match control.kind:
            case ControlKind.ASK:
                return None if visible.holds(control.text) else f"it is not true: {control.text}"
            case ControlKind.SHACL:
                shapes = self._shapes_of(control)
                if is_new:
                    shapes.check()
                return shapes.complaint(visible)
            case _:
                assert_never(control.kind)

    def _shapes_of(self, control: Control) -> Shapes:
        from quadlog.worker.evaluate.shapes import Shapes  # noqa: PLC0415 - takes long, and most workers never need it

        known = self._shapes.get(control.name)
        if known is None or known[0] != control:
            known = self._shapes[control.name] = control, Shapes(control.text)
        return known[1]


def _shortened(text: str) -> str:
    """Return as much of a text as `LONG_REPORT` allows.

    >>> len(_shortened("é" * LONG_REPORT).encode()) <= LONG_REPORT
    True
    """
    encoded = text.encode()
    if len(encoded) <= LONG_REPORT:
        return text
    end = " … (cut)"
    return encoded[: LONG_REPORT - len(end.encode())].decode(errors="ignore") + end
