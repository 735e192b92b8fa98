"""Every error that quadlog raises, in one tree.

    QuadlogError
    ├── UserError              the caller's mistake: nothing was changed
    │   ├── SyntaxRefused      400  the text is not SPARQL, or no patch
    │   ├── Unsupported        501  legal, but not (yet) understood: never guessed
    │   ├── TooLarge           413
    │   ├── KeyReused          422  one Idempotency-Key, two bodies
    │   ├── Forbidden          403
    │   ├── NotAcceptable      406  the format that was asked for cannot express the answer
    │   ├── NoSuchQuery        404  it ended, or never was
    │   ├── NoSuchWorker       404  none of this id was heard
    │   ├── StillServing       409  a worker that is heard cannot be dismissed
    │   ├── NoSuchControl      404  none has this name
    │   ├── NoSuchPeer         404  no peer has this id, or no settings name it
    │   ├── PeersStay          409  the peers cannot be changed so, or are as asked already
    │   ├── OtherHistory       409  Quadlog-Min-Index names a point that is not in the log
    │   └── NotEmpty           409  a seed for a repository whose log holds something, or begins with another seed
    ├── Unavailable            503  definite: nothing was changed, try again
    │   ├── NotAPeer           503  this master takes no writes: others do
    │   ├── NoMajority         503  this side of a split holds no majority of the voting data centres
    │   └── ReadOnly           503  so too: it is a witness, by its settings
    ├── QueryStopped           503  a query that was ended: over a limit, or by an operator
    ├── OutcomeUnknown         504  accepted, not yet decided: ask where `Location` says, /tx/{id}
    ├── Rejected               409  agreed, and refused by its evaluation: final
    ├── SetupError             the operator's to mend, before anything runs
    └── StateError             what is on disk or in Kafka contradicts itself
        ├── StoreDamaged       files of a store on disk are damaged or missing: the store is set aside
        ├── ForeignRecord      a record of another program's in a topic of ours: passed over
        ├── RecordsGone        an offset that was to be read is not in its topic
        └── TopicLost          a topic that was followed is gone, shorter, or another one now

``definite`` says whether the caller may take it that nothing was changed.
"""

from __future__ import annotations

from typing import ClassVar


class QuadlogError(Exception):
    """Root of the tree.  ``status`` is the HTTP status that a front door answers with."""

    status: ClassVar[int] = 500
    definite: ClassVar[bool] = True
    final: ClassVar[bool] = False
    """Whether asking another worker is in vain."""

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        """``retry_after``: seconds after which the same request may succeed."""
        super().__init__(message)
        self.retry_after = retry_after


class UserError(QuadlogError):
    """The caller's mistake; nothing was logged and nothing changed."""

    status = 400


class SyntaxRefused(UserError):
    """The text is not SPARQL, or no patch; the message has line and column."""


class Unsupported(UserError):
    """Legal SPARQL that this version does not execute: refused before it is logged."""

    status = 501


class TooLarge(UserError):
    """Above ``max-transaction-size``."""

    status = 413


class KeyReused(UserError):
    """An ``Idempotency-Key`` came back with another body."""

    status = 422


class Forbidden(UserError):
    """Not allowed here."""

    status = 403


class NotAcceptable(UserError):
    """The format that was asked for cannot express the answer; another one can."""

    status = 406


class NoSuchQuery(UserError):
    """No query of this id is under way."""

    status = 404


class NoSuchControl(UserError):
    """No control has this name."""

    status = 404


class NoSuchWorker(UserError):
    """No worker of this id was heard in this data centre."""

    status = 404


class StillServing(UserError):
    """A worker that is to be dismissed says that it serves."""

    status = 409


class NoSuchPeer(UserError):
    """No peer has this id; or, where one is to be added, the settings do not name it."""

    status = 404


class PeersStay(UserError):
    """The peers cannot be changed as asked, or are so already."""

    status = 409


class OtherHistory(UserError):
    """A point in the log that a read asked for is not in the log as it is known here."""

    status = 409


class NotEmpty(UserError):
    """A seed is what a log begins with: this one has begun already."""

    status = 409


class Unavailable(QuadlogError):
    """This node cannot do it now; nothing was changed."""

    status = 503


class NotAPeer(Unavailable):
    """This master has no place among those that agree: it takes no writes."""


class NoMajority(Unavailable):
    """The view of this master holds no majority of the voting data centres: others may have agreed on more."""


class ReadOnly(Unavailable):
    """This master votes, and is there for no client: it takes no writes, by its settings."""


class WriteProtected(Unavailable):
    """One of the two workers of this data centre is out of sync: no client's write is taken until it was rebuilt."""


class QueryStopped(QuadlogError):
    """A query was ended, by a limit or by hand; another worker would not answer it either."""

    status = 503
    final = True


class OutcomeUnknown(QuadlogError):
    """The transaction was accepted and is not decided yet: ask ``/tx/{id}``.

    Not 503: that is definite everywhere, and proxies and clients send the request again.
    """

    status = 504
    definite = False

    def __init__(self, message: str, *, ask: str | None = None, retry_after: int | None = None) -> None:
        """`ask`: the URL that tells the outcome, once it is known: the answer's ``Location``."""
        super().__init__(message, retry_after=retry_after)
        self.ask = ask


class Rejected(QuadlogError):
    """Agreed, evaluated, refused: the same everywhere, for ever."""

    status = 409


class SetupError(QuadlogError):
    """Settings, ports, directories, Java: something the operator has to mend first."""


class SparkFailed(QuadlogError):
    """A job of Spark came to nothing: no space, lost executors, a topic that is gone."""


class StateError(QuadlogError):
    """What is stored contradicts itself or the log; the process stops rather than guess."""


class StoreDamaged(StateError):
    """Files of a store on disk are damaged or missing."""


class ForeignRecord(StateError):
    """A record in a topic of ours that another program wrote, or no record at all."""


class RecordsGone(StateError):
    """An offset that was to be read is not in its topic."""

    def __init__(self, topic: str, offset: int, why: str) -> None:
        """`why`: as Kafka says it."""
        super().__init__(
            f"{topic} at offset {offset}: {why}. Its records were deleted (retention.ms, retention.bytes,"
            " kafka-delete-records), or its end was lost; set retention.ms to -1, and see 'Records were deleted' in"
            " docs/operating.md"
        )


class DuplicateNode(StateError):
    """Another process is this master: two that post under one id promise what neither of them keeps."""

    def __init__(self, node: str, why: str) -> None:
        """`why`: how that is seen."""
        super().__init__(
            f"{node} runs twice, {why}. This process stops. Stop all that have this node-id, give each a node-id and a"
            " data-dir of its own, and start this one again: it comes back as one without its disk"
        )


class TopicLost(StateError):
    """Kafka has lost a topic that was followed, or its end: whoever went on would forget what it took part in."""

    def __init__(self, what: str) -> None:
        """`what`: which topic, and how that is seen."""
        super().__init__(
            f"{what}. Have that Kafka back as it was (is a volume not mounted? is it another cluster?), or stop all of"
            " this data centre and run `quadlog dc rebuild --config MASTER.toml` once. Nothing was changed"
        )


def error_named(name: str) -> type[QuadlogError]:
    """The class of this name in the tree; the root if there is none.

    >>> error_named("Forbidden").status
    403
    """
    classes = [QuadlogError]
    for known in classes:
        classes += known.__subclasses__()
    return next((known for known in classes if known.__name__ == name), QuadlogError)
