"""Which processes a lab consists of, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["broker", "master", "worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process: `broker-dc1`, `dc1-m1`, `dc1-w1`."""

    id: str
    kind: Kind
    dc: str

    @property
    def port_names(self) -> tuple[str, ...]:
        """What its ports are recorded as: a broker has a second one for its controller."""
        return (self.id, f"{self.id}/controller") if self.kind == "broker" else (self.id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many of what.

    >>> [node.id for node in Shape(dcs=2, masters=1, workers=1, shared_broker=True).nodes]
    ['broker-dc1', 'dc1-m1', 'dc2-m1', 'dc1-w1', 'dc2-w1']
    """

    dcs: int = 3
    masters: int = 1
    workers: int = 2
    shared_broker: bool = False

    @property
    def dc_names(self) -> tuple[str, ...]:
        """`dc1` and so on."""
        return tuple(f"dc{number}" for number in range(1, self.dcs + 1))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every process: brokers, then masters, then workers."""
        broker_dcs = self.dc_names[:1] if self.shared_broker else self.dc_names
        return (
            *(Node(id=f"broker-{dc}", kind="broker", dc=dc) for dc in broker_dcs),
            *(_node("master", dc, number) for dc in self.dc_names for number in range(1, self.masters + 1)),
            *(_node("worker", dc, number) for dc in self.dc_names for number in range(1, self.workers + 1)),
        )

    def broker_of(self, dc: str) -> str:
        """Return the id of the broker that a data centre uses."""
        return f"broker-{self.dc_names[0] if self.shared_broker else dc}"

    def __str__(self) -> str:
        """Say it as the options that ask for it."""
        shared = " --shared-broker" if self.shared_broker else ""
        return f"--dcs {self.dcs} --masters {self.masters} --workers {self.workers}{shared}"


def _node(kind: Literal["master", "worker"], dc: str, number: int) -> Node:
    return Node(id=f"{dc}-{kind[0]}{number}", kind=kind, dc=dc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asked for; None: whatever is recorded, or else the default."""

    dcs: int | None = None
    masters: int | None = None
    workers: int | None = None
    shared_broker: bool | None = None

    def fill(self, known: Shape) -> Shape:
        """Return `known` with what was asked for laid over it."""
        return Shape(
            dcs=known.dcs if self.dcs is None else self.dcs,
            masters=known.masters if self.masters is None else self.masters,
            workers=known.workers if self.workers is None else self.workers,
            shared_broker=known.shared_broker if self.shared_broker is None else self.shared_broker,
        )
