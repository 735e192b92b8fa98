"""Known health of a worker's store, which is reported in heartbeats and by `/status`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.set_aside import stores_set_aside, told_set_aside
from quadlog.worker.repair.mender import QUADS

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.records import Scrub
    from quadlog.worker.repair.kept_branch import KeptBranch


@dataclass(slots=True)
class Health:
    """Health of one store.  Written by the scrub and the mender, read by any thread."""

    data_dir: Path | None = None
    """The worker's data-dir."""
    scrub: Scrub | None = None
    """Result of the last recount."""
    scrub_failure: str = ""
    """Why the last attempt to recount failed; empty: it did not."""
    branch: KeptBranch | None = None
    """The branch that this store keeps; None: its state is one of the log, or will be."""
    mend: str = ""
    """Why the worker was not rebuilt when that was requested, or that it waits for a seed."""
    _aside: str = field(init=False, default="")
    _kept: list[Path] = field(init=False, default_factory=list["Path"])

    def __post_init__(self) -> None:
        """Find the stores that are set aside; no other store is set aside before the process ends."""
        if self.data_dir is not None:
            self._kept = stores_set_aside(self.data_dir / QUADS)
            self._aside = told_set_aside(self.data_dir / QUADS)

    @property
    def set_aside(self) -> str:
        """Damaged stores that are set aside, and why; empty: there are none, or an operator removed them."""
        if self.data_dir is not None and not all(path.exists() for path in self._kept):
            self._kept = stores_set_aside(self.data_dir / QUADS)
            self._aside = told_set_aside(self.data_dir / QUADS)
        return self._aside

    def scrub_behind(self, rewound: int) -> Scrub | None:
        """Return the result of the last recount, unless it is meaningless after the rewind of this epoch.

        A recount from before the rewind that found no error is dropped: the log may have another entry at its
        index now.
        """
        scrub = self.scrub
        if scrub is not None and scrub.rewound < rewound and scrub.found == scrub.expected:
            return None
        return scrub
