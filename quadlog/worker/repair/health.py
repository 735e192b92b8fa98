"""What a worker knows of the health of its store: told in heartbeats and at its door."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.aside import stores_set_aside, told_set_aside
from quadlog.worker.repair.mend import QUADS

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.records import Scrub


@dataclass(slots=True)
class Health:
    """Written by the scrub and the mender, read by any thread."""

    data_dir: Path | None = None
    """Of the worker."""
    scrub: Scrub | None = None
    """What the last recount found."""
    scrub_failure: str = ""
    """Why the last try to recount came to nothing."""
    mend: str = ""
    """Why the worker was not rebuilt when it was asked to be."""
    _aside: str = field(init=False, default="")
    _kept: list[Path] = field(init=False, default_factory=list["Path"])

    def __post_init__(self) -> None:
        """Look which stores are set aside; the process ends before there is another one."""
        if self.data_dir is not None:
            self._kept = stores_set_aside(self.data_dir / QUADS)
            self._aside = told_set_aside(self.data_dir / QUADS)

    @property
    def set_aside(self) -> str:
        """Which damaged stores are set aside, and why; empty: none, or an operator removed them."""
        if self.data_dir is not None and not all(path.exists() for path in self._kept):
            self._kept = stores_set_aside(self.data_dir / QUADS)
            self._aside = told_set_aside(self.data_dir / QUADS)
        return self._aside

    def scrub_behind(self, rewound: int) -> Scrub | None:
        """What the last recount found, if that says something of what is behind the rewind of this epoch.

        What was right before it may stand at an index where the log has something else now.
        """
        scrub = self.scrub
        if scrub is not None and scrub.rewound < rewound and scrub.found == scrub.expected:
            return None
        return scrub
