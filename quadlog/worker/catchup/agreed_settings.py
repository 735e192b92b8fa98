"""Settings of a worker's start that all masters agree on: those of the newest post of its data centre.

The order is: what an entry has set; the worker's own file; what the file of a master has; the default.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from consumers import rounds
from quadlog.broker import last_records
from quadlog.core.cluster_settings import SETTINGS, ClusterSettings, in_force
from quadlog.errors import ForeignRecord, QuadlogError

if TYPE_CHECKING:
    from quadlog.core.model import AgreedSetting
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

LOOKED_AT: Final = 20
"""Records at the topic's end that are searched for a post."""
WAIT_S: Final = 3.0


def with_agreed(settings: WorkerSettings, topics: Topics) -> WorkerSettings:
    """Return the settings of a worker with what its masters have agreed on; unchanged if no master says it."""
    said: tuple[AgreedSetting, ...] = ()
    try:
        for record in last_records(settings.kafka, topics.rounds, count=LOOKED_AT, timeout=WAIT_S):
            with suppress(ForeignRecord):
                said = rounds.hear(record).settings
    except QuadlogError as error:
        log.warning("agreed_settings_unknown", reason=str(error))
    return applied_to(settings, said)


def applied_to(settings: WorkerSettings, said: tuple[AgreedSetting, ...]) -> WorkerSettings:
    """Return the settings of a worker with those that a post names."""
    counts = in_force(ClusterSettings(), said)
    agreed = {one.name for one in said if one.index}
    changes = {
        setting.field: getattr(counts, setting.field)
        for name, setting in SETTINGS.items()
        if setting.field in type(settings).model_fields
        and (name in agreed or setting.field not in settings.model_fields_set)
    }
    return settings.model_copy(update=changes)
