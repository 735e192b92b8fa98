"""Objects shared by the parts of one master's agreement."""

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
    """Shared objects of one master."""

    node: str
    """Id of the master."""
    views: Views
    """Its membership state."""
    company: Company
    """Known state of all masters."""
    holdings: Holdings
    """Its queue and log."""
    clock: Clock
    """Source of its timestamps."""
    pacing: Pacing
    """Times of its posts."""
    limits: Limits
    """Sizes of posts and turns."""
