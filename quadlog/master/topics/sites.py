"""Sites: the data centres with their masters and topics, by the settings of one master."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from quadlog.errors import SetupError
from quadlog.master.clients.write_guards import roles_of, voting_of
from quadlog.settings import Role
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.settings import MasterSettings


class DcByMaster(dict[str, str]):
    """Data centre of each master.

    >>> DcByMaster({"m1": "dc1"})["m1"]
    'dc1'
    """

    def __missing__(self, name: str) -> NoReturn:
        """Raise SetupError: the others have added a master that these settings do not name."""
        raise SetupError(
            f"{name} is a peer by the agreed log, and these settings do not name it: add peer.N.id, .dc, .url, .kafka"
            " and .voting = false of it to the settings of this master, and start it again"
        )


class Sites:
    """Data centres as seen from one of the masters."""

    def __init__(self, settings: MasterSettings) -> None:
        peers = [peer for peer in settings.peer.values() if peer.role is not Role.MUTED]
        # No master waits for a muted one or reads its topics.
        self.node: Final = settings.node_id
        self.dc: Final = settings.dc
        """Data centre of this master."""
        self.dc_of: Final[Mapping[str, str]] = DcByMaster(
            {settings.node_id: settings.dc} | {peer.id: peer.dc for peer in peers}
        )
        """Data centre of each named master, whether it is a peer or not."""
        voting = voting_of(settings)
        self.first_peers: Final = {name: dc for name, dc in self.dc_of.items() if voting[name]}
        """Data centre of each master that is a peer at the beginning of the log."""
        self.witnesses: Final = frozenset(
            self.dc_of[name] for name, role in roles_of(settings).items() if role is Role.READ_ONLY
        )
        """Data centres whose masters are read-only: they evaluate nothing."""
        self.kafka_of: Final = {settings.dc: settings.kafka} | {peer.dc: peer.kafka for peer in peers}
        """Bootstrap servers of each data centre."""
        self.topics: Final = {dc: Topics(settings.repository, dc) for dc in self.kafka_of}
        """Topics of each data centre."""
        self.patience_ms: Final = 2.5 * settings.idle_round * 1000
        """Silence in ms of a master, which posts in every idle round, after which others take over its work."""

    @property
    def own(self) -> Topics:
        """Topics of this data centre."""
        return self.topics[self.dc]

    @property
    def others(self) -> list[str]:
        """The other data centres."""
        return [dc for dc in self.kafka_of if dc != self.dc]

    def masters_in(self, dc: str) -> list[str]:
        """Return all masters of a data centre."""
        return [master for master, where in self.dc_of.items() if where == dc]

    @property
    def has_company(self) -> bool:
        """True if there are other masters in this data centre."""
        return len(self.masters_in(self.dc)) > 1
