"""Objects shared by the parts of one master's agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadlog.core.agreement.local_state import LocalState
    from quadlog.core.agreement.pacing import Clock, Pacing
    from quadlog.core.agreement.progress_tracker import ProgressTracker
    from quadlog.core.membership.views import Views
    from quadlog.core.messages import AgreementLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Shared objects of one master."""

    node: str
    views: Views
    progress: ProgressTracker
    local_state: LocalState
    clock: Clock
    pacing: Pacing
    limits: AgreementLimits
