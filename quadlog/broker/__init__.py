"""Access to Kafka: one outlet and any number of tails per Kafka cluster.

`acks=all` means replication, not fsync: an acknowledged record is in the page cache of all in-sync
brokers.
"""

from quadlog.broker.admin import Admin, why_full
from quadlog.broker.holes import Hole, first_hole
from quadlog.broker.outlet import KafkaOutlet
from quadlog.broker.reading import (
    BEGINNING,
    END,
    STARTING_S,
    backwards,
    beginning_of,
    end_of,
    last,
    last_records,
    offset_at,
    ranges,
    records_between,
)
from quadlog.broker.renewable import RenewableOutlet
from quadlog.broker.tail import KafkaTail, Watched

__all__ = [
    "BEGINNING",
    "END",
    "STARTING_S",
    "Admin",
    "Hole",
    "KafkaOutlet",
    "KafkaTail",
    "RenewableOutlet",
    "Watched",
    "backwards",
    "beginning_of",
    "end_of",
    "first_hole",
    "last",
    "last_records",
    "offset_at",
    "ranges",
    "records_between",
    "why_full",
]
