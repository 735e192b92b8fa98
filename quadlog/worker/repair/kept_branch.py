"""The branch that a worker keeps: under `split-recovery` None it stays on the side that gave way.

It applies and evaluates nothing more, and serves reads of that state, until an operator has it rebuilt.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_FILE: Final = "kept-branch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBranch:
    """A branch that a store keeps."""

    fork: int
    """Index of the last effect that the branch shares with the log."""
    epoch: int
    """Epoch of the view in which the worker's side gave way."""
    store: str
    """Name of the store."""


def save_branch(data_dir: Path, branch: KeptBranch) -> None:
    """Save in a worker's data-dir that its store keeps a branch."""
    draft = data_dir / f"{_FILE}.new"
    draft.write_text(f"{json.dumps(asdict(branch))}\n")
    draft.replace(data_dir / _FILE)


def saved_branch(data_dir: Path, store: str) -> KeptBranch | None:
    """Return the branch that the store of this name keeps; None: it keeps none."""
    with suppress(OSError, ValueError, TypeError):
        branch = KeptBranch(**json.loads((data_dir / _FILE).read_text()))
        return branch if branch.store == store else None
    return None
