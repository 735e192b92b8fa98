"""What the parts of one master's agreement have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadlog.core.agreement.company import Company
    from quadlog.core.agreement.holdings import Holdings
    from quadlog.core.agreement.pacing import Clock, Pacing
    from quadlog.core.membership.views import Views
    from quadlog.core.messages import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Of one master."""

    node: str
    """Its id."""
    views: Views
    """Where it stands."""
    company: Company
    """What it knows of the others."""
    holdings: Holdings
    """Its queue and its log."""
    clock: Clock
    """Its timestamps."""
    pacing: Pacing
    """When it is to say something."""
    limits: Limits
    """How much at once."""
