"""The operations of a history, the anomalies of it, and a file format: one operation as JSON per line.

All times are seconds of one steady clock.  The order of the operations in a history has no meaning.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class AppendMode(StrEnum):
    """What a transaction promises to its client."""

    SYNC = "sync"
    ASYNC = "async"


class AppendOutcome(StrEnum):
    """How a request ended for its client."""

    DONE = "done"
    """204."""
    REFUSED = "refused"
    """503, or 4xx except 409: this request had no effect.  The same transaction may be sent again."""
    ROLLED_BACK = "rolled_back"
    """409: final, the transaction has no effect and never will have one."""
    UNKNOWN = "unknown"
    """504, or a connection that was lost."""


class ReportedState(StrEnum):
    """What `/tx` told."""

    APPLIED = "applied"
    ROLLED_BACK = "rolled_back"
    PENDING = "pending"
    UNKNOWN = "unknown"


class ReadKind(StrEnum):
    """What a read promises."""

    STRICT = "strict"
    """Linearizable: all that anybody was acknowledged before its invocation."""
    SESSION = "session"
    """All that its client was acknowledged before its invocation."""
    PREFIX = "prefix"
    """Any prefix of the agreed order."""
    FINAL = "final"
    """The last state of one worker, after everything was healed: all keys."""


class ListAppend(NamedTuple):
    """One micro-operation of a transaction; a value is appended to a key once in a history."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class AppendTransaction:
    """A request for a transaction.  Requests that are repeated with one Idempotency-Key have the same `tx`."""

    tx: str
    client: str
    master: str
    mode: AppendMode
    appends: tuple[ListAppend, ...]
    invoked: float
    completed: float
    """When the answer came, or when the client gave up."""
    outcome: AppendOutcome
    index: int | None = None
    """That was acknowledged (`Quadlog-Index`)."""
    majority: bool | None = None
    """Whether its master was connected to a majority of the data centres while the request was open, if known."""
    view_members: tuple[str, ...] = ()
    """Masters of its master's view at that time; empty if not known."""


@dataclass(frozen=True, slots=True)
class TxReport:
    """An answer of `/tx`."""

    tx: str
    master: str
    at: float
    """When the answer came."""
    state: ReportedState
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ListRead:
    """A read of whole lists as of one state; a key without values has an empty list."""

    client: str
    master: str
    """That answered; of a final read, the worker."""
    kind: ReadKind
    lists: Mapping[str, tuple[int, ...]]
    invoked: float
    completed: float
    index: int | None = None
    """That it shows (`Quadlog-Index`)."""
    is_ok: bool = True
    """A read that failed says nothing."""


@dataclass(frozen=True, slots=True)
class VotingMasters:
    """The data centre of each voting master: a view is a majority if it has members in most data centres."""

    centres: Mapping[str, str] = field(default_factory=dict[str, str])


Operation = AppendTransaction | TxReport | ListRead | VotingMasters


class AnomalyKind(StrEnum):
    """Which promise is broken."""

    LOST_APPEND = "lost append"
    DOUBLED_APPEND = "doubled append"
    UNASKED_VALUE = "unasked value"
    DIRTY_READ = "dirty read"
    STALE_READ = "stale read"
    FUTURE_READ = "future read"
    """A read shows a value that was asked for after the read had ended."""
    FRACTURED_READ = "fractured read"
    """A part of a transaction is shown without the rest."""
    INCOMPATIBLE_ORDERS = "incompatible orders"
    FALSE_ROLLBACK = "false rollback"
    MINORITY_COMMIT = "commit on a minority"
    CONTRADICTED_REPORT = "contradicted report"
    """`/tx` told what did not come true."""
    TURNED_DECISION = "turned decision"
    DUPLICATE_INDEX = "duplicate index"
    INDEX_ORDER = "index order"
    """The final order of values, or what a read shows, does not follow the indexes."""
    REAL_TIME_ORDER = "real-time order"
    DIVERGENT_WORKERS = "divergent workers"
    ORDER_CYCLE = "order cycle"
    """Each pair of operations can be ordered, but not all of them together."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A broken promise, and the operations that show it."""

    kind: AnomalyKind
    explanation: str
    operations: tuple[Operation, ...]


TYPES: Final = {"append": AppendTransaction, "report": TxReport, "read": ListRead, "masters": VotingMasters}
_NAMES: Final = {cls: (name, tuple(member.name for member in fields(cls))) for name, cls in TYPES.items()}


def described(operation: Operation) -> str:
    """A few words for an explanation."""
    match operation:
        case AppendTransaction():
            return f"{operation.tx} ({operation.mode}, {operation.outcome})"
        case TxReport():
            return f"report of {operation.tx} at {operation.at:.6f}"
        case ListRead():
            return f"{operation.kind} read of {operation.client} at {operation.invoked:.6f}"
        case VotingMasters():
            return "voting masters"


def dump(history: Iterable[Operation], file: TextIO) -> None:
    """Write each operation as one line."""
    for operation in history:
        name, members = _NAMES[type(operation)]
        line = {"type": name, **{member: getattr(operation, member) for member in members}}
        file.write(f"{json.dumps(line, separators=(',', ':'))}\n")


def load(file: TextIO) -> list[Operation]:
    """The operations that `dump` wrote."""
    return [_operation(json.loads(line)) for line in file]


def _operation(line: dict[str, Any]) -> Operation:
    match line.pop("type"):
        case "append":
            appends = tuple(ListAppend(key, value) for key, value in line["appends"])
            line |= {"appends": appends, "view_members": tuple(line["view_members"])}
            line |= {"mode": AppendMode(line["mode"]), "outcome": AppendOutcome(line["outcome"])}
            return AppendTransaction(**line)
        case "report":
            return TxReport(**(line | {"state": ReportedState(line["state"])}))
        case "read":
            lists = {key: tuple(values) for key, values in line["lists"].items()}
            return ListRead(**(line | {"kind": ReadKind(line["kind"]), "lists": lists}))
        case "masters":
            return VotingMasters(**line)
        case other:
            raise ValueError(f"a line is of no known type: {other!r}")
