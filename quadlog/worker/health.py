"""What a worker knows of the health of its store: told in heartbeats and at its door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadlog.core.model import Scrub


@dataclass(slots=True)
class Health:
    """Written by the scrub and the mender, read by any thread."""

    scrub: Scrub | None = None
    """What the last recount found."""
    scrub_failure: str = ""
    """Why the last try to recount came to nothing."""
    mend: str = ""
    """Why the worker was not rebuilt when it was asked to be."""
