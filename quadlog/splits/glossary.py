"""Plain meanings of what a report counts: classes of updates, and what clients had been told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASSES: Final[Mapping[str, str]] = {
    "dropped": "An operator dropped it when the end of the split was approved.",
    "rejected": "Its evaluation or a control refuses it behind the winner's log.",
    "empty": "It changes nothing behind the winner's log, and changed something on the branch.",
    "opposite": "It changes a quad that the winner has changed, too, to another state than the winner's.",
    "differs": "It changes other quads than on the branch: its WHERE finds something else.",
    "unforeseen": "It needs another server (LOAD, SERVICE), so its result is not known in advance.",
    "waits": "The log does not have it yet.",
    "duplicate": "The winner's log already has it: it is not agreed again.",
    "commutes": "What it changed on the branch is so behind the winner's log, too.",
}
"""Classes of updates, in the order in which they matter to an operator."""

ANSWERS: Final[Mapping[str, str]] = {
    "APPLIED": "applied (204)",
    "REJECTED": "rejected (409)",
    "ROLLED_BACK": "rolled back (409)",
    "SUSPENDED": "set aside (504)",
    "UNKNOWN": "no outcome",
}
"""What clients had been told on a branch."""

OPEN: Final = frozenset(("unforeseen", "waits"))
"""Classes of updates whose outcome is not known yet."""

_LOST: Final = frozenset(("dropped", "rejected", "empty", "opposite", "differs"))
_GAINED: Final = frozenset(("opposite", "differs"))


def changes_outcome(told: str, update_class: str) -> bool:
    """Return whether a client was told something else than what becomes of its update."""
    return is_lost(told, update_class) or is_gained(told, update_class)


def is_lost(told: str, update_class: str) -> bool:
    """Return whether an update that its client was told is applied is refused, or changes something else.

    >>> is_lost("APPLIED", "empty"), is_lost("APPLIED", "commutes"), is_lost("REJECTED", "rejected")
    (True, False, False)
    """
    return told == "APPLIED" and update_class in _LOST


def is_gained(told: str, update_class: str) -> bool:
    """Return whether an update that its client was told is not applied changes quads after all."""
    return told in {"REJECTED", "ROLLED_BACK"} and update_class in _GAINED
