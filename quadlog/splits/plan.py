"""The plan of a split: what becomes of each update, in a canonical form whose hash stands for it.

    {"branches":[...],"format":1,"repository":"main","winner":{...}}
    {"class":"commutes","deleted":0,"id":"...","index":211,"inserted":1,"outcome":"APPLIED"}
    {"ended":"CONFIG","id":"...","index":212}
    {"base":true,"branch":true,"line":"<urn:a> <urn:b> <urn:c> .","result":true,"winner":false}

docs/splits.md defines it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from quadlog.core.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quadlog.core.model import LogPosition

FORMAT: Final = 1


class UpdateClass(StrEnum):
    """What becomes of an update of a branch behind the log of the winner; `glossary.py` says what each class means."""

    DUPLICATE = "duplicate"
    DROPPED = "dropped"
    WAITS = "waits"
    UNFORESEEN = "unforeseen"
    REJECTED = "rejected"
    EMPTY = "empty"
    OPPOSITE = "opposite"
    DIFFERS = "differs"
    COMMUTES = "commutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Lines that an update changes on the branch (there) and behind the log of the winner (here)."""

    there: int = 0
    here: int = 0
    opposite: int = 0
    """Changed here to another state than the winner's, who had changed them after the fork."""
    extra: int = 0
    """Changed here, and not there or to another state."""
    unmet: int = 0
    """Changed there, and in another state here after it."""


def class_of(
    outcome: Outcome | None,
    compared: Comparison,
    *,
    is_duplicate: bool = False,
    is_dropped: bool = False,
    is_foreseen: bool = True,
) -> UpdateClass:
    """Return the class of an update: the first one that holds.

    `outcome` is that of its effect behind the log of the winner; None: there is none.

    >>> str(class_of(Outcome.APPLIED, Comparison(there=2, here=1)))
    'commutes'
    >>> str(class_of(Outcome.APPLIED, Comparison(there=2)))
    'empty'
    >>> str(class_of(None, Comparison(there=2)))
    'waits'
    """
    holds = {
        UpdateClass.DUPLICATE: is_duplicate,
        UpdateClass.DROPPED: is_dropped,
        UpdateClass.UNFORESEEN: not is_foreseen,
        UpdateClass.WAITS: outcome is None,
        UpdateClass.REJECTED: outcome is Outcome.REJECTED,
        UpdateClass.EMPTY: compared.there and not compared.here,
        UpdateClass.OPPOSITE: compared.opposite,
        UpdateClass.DIFFERS: compared.extra or compared.unmet,
        UpdateClass.COMMUTES: True,
    }
    return next(update_class for update_class, it_holds in holds.items() if it_holds)


class PlanHash:
    """The hash of a plan whose lines come one by one, as there may be millions."""

    def __init__(
        self, repository: str, winner: LogPosition, branches: Sequence[tuple[int, LogPosition]]
    ) -> None:
        """Begin with the first line; it has the index of the fork and the last entry of each branch."""
        self._hash = blake2b(digest_size=32)
        self._add(
            {
                "format": FORMAT,
                "repository": repository,
                "winner": {"index": winner.index, "chain": winner.chain.hex()},
                "branches": [
                    {"fork": fork, "index": last.index, "chain": last.chain.hex()} for fork, last in branches
                ],
            }
        )

    def add_update(
        self,
        index: int,
        transaction_id: str,
        update_class: UpdateClass,
        outcome: Outcome | None,
        *,
        deleted: int,
        inserted: int,
    ) -> None:
        """Add an update of a branch; the id is in hexadecimal."""
        self._add(
            {
                "index": index,
                "id": transaction_id,
                "class": update_class.value,
                "outcome": None if outcome is None else outcome.value,
                "deleted": deleted,
                "inserted": inserted,
            }
        )

    def add_ended(self, index: int, transaction_id: str) -> None:
        """Add a CONFIG entry, which ends with its branch."""
        self._add({"ended": "CONFIG", "index": index, "id": transaction_id})

    def add_disputed(self, line: str, states: Mapping[str, bool]) -> None:
        """Add a disputed quad; `states`: whether it is there in `base`, `winner`, `branch` and `result`."""
        self._add({"line": line, **states})

    def _add(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self._hash.update(text.encode() + b"\n")

    def hexdigest(self) -> str:
        """Return the hash of what was added."""
        return self._hash.hexdigest()
