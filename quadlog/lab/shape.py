"""The processes of a lab, and their names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import permutations
from typing import Literal

from quadlog.errors import UserError

Kind = Literal["links", "broker", "master", "worker"]
LINKS = "links"
"""Id of the process through which data centres reach each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNode:
    """One process: `links`, `broker-dc1`, `dc1-m1`, `dc1-w1`."""

    id: str
    kind: Kind
    dc: str
    """Data centre of the process; empty for the links."""
    port_names: tuple[str, ...]
    """Names under which its ports are recorded; the first one is the port for its own data centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRoute:
    """Path from one data centre to a broker or master of another, through a door of the links."""

    opener: str
    target: str
    server: LabNode

    @property
    def door(self) -> str:
        """Name under which the port of the door is recorded."""
        return f"{LINKS}/{self.opener}>{self.server.id}"

    @property
    def server_port(self) -> str:
        """Name of the port to which the door connects: a broker has a listener for each peer data centre."""
        return _listener(self.target, self.opener) if self.server.kind == "broker" else self.server.id


@dataclass(frozen=True, slots=True, kw_only=True)
class LabShape:
    """Numbers of data centres and of processes in each, and special roles of data centres.

    >>> [node.id for node in LabShape(dcs=2, masters=1, workers=1, shared_broker=True).nodes]
    ['broker-dc1', 'dc1-m1', 'dc2-m1', 'dc1-w1', 'dc2-w1']
    >>> [way.door for way in LabShape(dcs=2, masters=1, workers=1).ways]
    ['links/dc1>broker-dc2', 'links/dc1>dc2-m1', 'links/dc2>broker-dc1', 'links/dc2>dc1-m1']
    >>> [node.id for node in LabShape(dcs=2, masters=0, workers=0).nodes]
    ['broker-dc1', 'broker-dc2']
    """

    dcs: int = 3
    masters: int = 1
    workers: int = 2
    shared_broker: bool = False
    outside: int = 0
    """Number of data centres, the last ones, that are not peers at the beginning of the log."""
    read_only: int = 0
    """Number of data centres, the last ones, that are witnesses: with read-only masters and without workers."""
    muted: int = 0
    """Number of data centres, the last ones, that are muted: their masters have no vote, and copy the agreed log."""
    secured: bool = False
    """True if the brokers speak TLS, ask for passwords, and have ACLs."""

    @property
    def dc_names(self) -> tuple[str, ...]:
        """Names of the data centres: `dc1` and so on."""
        return tuple(f"dc{number}" for number in range(1, self.dcs + 1))

    def votes(self, dc: str) -> bool:
        """Return whether the masters of a data centre are peers at the beginning of the log.

        >>> [LabShape(dcs=3, outside=1).votes(dc) for dc in ("dc1", "dc2", "dc3")]
        [True, True, False]
        """
        return dc in self.dc_names[: self.dcs - max(self.outside, self.muted)]

    def is_muted(self, dc: str) -> bool:
        """Return whether the master of a data centre is muted.

        >>> [LabShape(dcs=3, muted=1).is_muted(dc) for dc in ("dc1", "dc2", "dc3")]
        [False, False, True]
        """
        return dc not in self.dc_names[: self.dcs - self.muted]

    def writes(self, dc: str) -> bool:
        """Return whether a data centre has read-write masters, and workers.

        >>> [LabShape(dcs=3, read_only=1).writes(dc) for dc in ("dc1", "dc2", "dc3")]
        [True, True, False]
        """
        return dc in self.dc_names[: self.dcs - self.read_only]

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """All processes in the order of their start: links, brokers, masters, workers.

        Without masters there are no links either: the labs that use these brokers have links of their own.
        """
        broker_dcs = self.dc_names[:1] if self.shared_broker else self.dc_names
        doors = tuple(way.door for way in self.ways)
        links = LabNode(id=LINKS, kind="links", dc="", port_names=(LINKS, *doors))
        return (
            *((links,) if self.has_links and self.masters else ()),
            *(self._broker(dc) for dc in broker_dcs),
            *(node for dc in self.dc_names for node in _nodes("master", dc, self.masters)),
            *(node for dc in self.dc_names if self.writes(dc) for node in _nodes("worker", dc, self.workers)),
        )

    @property
    def port_names(self) -> tuple[str, ...]:
        """All names under which ports are recorded, including doors."""
        names = (name for node in self.nodes for name in node.port_names)
        return tuple(dict.fromkeys((*names, *(way.door for way in self.ways))))

    @property
    def client_ports(self) -> tuple[str, ...]:
        """Names of the ports that clients use: of brokers, masters and workers, in the order of their start.

        >>> LabShape(dcs=1, masters=1, workers=1).client_ports
        ('broker-dc1', 'dc1-m1', 'dc1-w1')
        """
        return tuple(node.id for node in self.nodes if node.kind != "links")

    @property
    def has_links(self) -> bool:
        """True if the traffic between data centres passes through links.

        With a shared broker it does not: all of it passes through that broker, which is outside of all data centres.
        """
        return self.dcs > 1 and not self.shared_broker

    @property
    def ways(self) -> tuple[LinkRoute, ...]:
        """All ways through links."""
        if not self.has_links:
            return ()
        return tuple(
            LinkRoute(opener=opener, target=target, server=server)
            for opener, target in permutations(self.dc_names, 2)
            for server in (self._broker(target), *_nodes("master", target, self.masters))
        )

    def port_name(self, server: str, *, seen_from: str) -> str:
        """Return the name of the port at which a data centre reaches a broker or master."""
        found = [way.door for way in self.ways if (way.opener, way.server.id) == (seen_from, server)]
        return found[0] if found else server

    def _broker(self, dc: str) -> LabNode:
        peers = [peer for peer in self.dc_names if peer != dc] if self.has_links else []
        own = (f"broker-{dc}", f"broker-{dc}/controller")
        return LabNode(
            id=own[0], kind="broker", dc=dc, port_names=(*own, *(_listener(dc, peer) for peer in peers))
        )

    def broker_of(self, dc: str) -> str:
        """Return the id of the broker that a data centre uses."""
        return f"broker-{self.dc_names[0] if self.shared_broker else dc}"

    def __str__(self) -> str:
        """Return the options of `lab up` for this shape."""
        shared = " --shared-broker" if self.shared_broker else ""
        outside = f" --outside {self.outside}" if self.outside else ""
        read_only = f" --read-only {self.read_only}" if self.read_only else ""
        muted = f" --muted {self.muted}" if self.muted else ""
        secured = " --secured" if self.secured else ""
        numbers = f"--dcs {self.dcs} --masters {self.masters} --workers {self.workers}"
        return f"{numbers}{shared}{outside}{read_only}{muted}{secured}"


def _listener(broker_dc: str, opener: str) -> str:
    return f"broker-{broker_dc}/from-{opener}"


def _nodes(kind: Literal["master", "worker"], dc: str, count: int) -> tuple[LabNode, ...]:
    names = [f"{dc}-{kind[0]}{number}" for number in range(1, count + 1)]
    return tuple(LabNode(id=name, kind=kind, dc=dc, port_names=(name,)) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRequest:
    """Values of the command line; None: the recorded value, or else the default."""

    dcs: int | None = None
    masters: int | None = None
    workers: int | None = None
    shared_broker: bool | None = None
    outside: int | None = None
    read_only: int | None = None
    muted: int | None = None
    secured: bool | None = None

    def fill(self, known: LabShape) -> LabShape:
        """Return `known`, overridden by the values of the command line.

        Raises:
            UserError: no master would be a peer, or several masters of a data centre would be added later; or all data
                centres are witnesses, or muted; or muted data centres are combined with several masters, or with data
                centres outside or read-only; or workers have no master.

        """
        asked = {name: value for name, value in asdict(self).items() if value is not None}
        shape = replace(known, **asked)
        if shape.outside and (shape.outside >= shape.dcs or shape.masters > 1):
            raise UserError(
                f"some data centre has to be no --outside one, and --masters 1 beside it; this is {shape}"
            )
        if shape.muted and (
            shape.muted >= shape.dcs or shape.masters > 1 or shape.outside or shape.read_only
        ):
            raise UserError(
                "some data centre has to be no --muted one, and --masters 1 beside it, without --outside and"
                f" --read-only; this is {shape}"
            )
        if shape.secured and not shape.masters:
            raise UserError(f"--secured needs the users of --masters and --workers; this is {shape}")
        if shape.workers and not shape.masters:
            raise UserError(f"workers need a master: give --workers 0 beside --masters 0; this is {shape}")
        if shape.read_only >= shape.dcs:
            raise UserError(f"some data centre has to be no --read-only one; this is {shape}")
        return shape
