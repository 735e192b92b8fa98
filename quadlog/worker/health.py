"""What a worker knows of the health of its store: told in heartbeats and at its door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadlog.core.records import Scrub


@dataclass(slots=True)
class Health:
    """Written by the scrub and the mender, read by any thread."""

    scrub: Scrub | None = None
    """What the last recount found."""
    scrub_failure: str = ""
    """Why the last try to recount came to nothing."""
    mend: str = ""
    """Why the worker was not rebuilt when it was asked to be."""

    def scrub_behind(self, rewound: int) -> Scrub | None:
        """What the last recount found, if that says something of what is behind the rewind of this epoch.

        What was right before it may stand at an index where the log has something else now.
        """
        scrub = self.scrub
        if scrub is not None and scrub.rewound < rewound and scrub.found == scrub.expected:
            return None
        return scrub
