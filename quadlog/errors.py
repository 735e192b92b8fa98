"""The errors that quadlog raises, in one tree.

    QuadlogError
    ├── UserError              a mistake in the request: nothing was changed
    │   ├── SyntaxRefused      400  the text is neither SPARQL nor a patch
    │   ├── Unsupported        501  legal, but not (yet) understood: never guessed
    │   ├── TooLarge           413
    │   ├── UnsupportedMediaType 415 the body has a media type that is not accepted
    │   ├── KeyReused          422  one Idempotency-Key, two bodies
    │   ├── Forbidden          403
    │   ├── NotAcceptable      406  the requested format cannot express the answer
    │   ├── NoSuchQuery        404  the query has ended, or never existed
    │   ├── NoSuchWorker       404  no heartbeat of a worker with this id was received
    │   ├── StillServing       409  a worker whose heartbeats arrive cannot be dismissed
    │   ├── NoSuchControl      404  no control has this name
    │   ├── NoSuchPeer         404  no peer has this id, or the settings do not name it
    │   ├── NoSuchSetting      404  no setting that all masters share has this name
    │   ├── NoSuchReport       404  no report of a split has this name
    │   ├── SettingStays       409  the setting cannot be changed to this value now
    │   ├── PlanOutdated       409  the end of a split cannot be approved as it was foreseen
    │   ├── PeersStay          409  the peers cannot be changed as requested, or already are so
    │   ├── OtherHistory       409  Quadlog-Min-Index names a point that is not in the log
    │   ├── NoSuchRepository   404  the path names another repository
    │   ├── NoSuchSeed         404  no seed of this signature is kept here
    │   ├── NoSuchCopy         404  no copy of this digest is kept here
    │   ├── DamagedChunk       400  the received bytes are not those that were sent
    │   └── NotEmpty           409  a seed for a repository whose log has entries, or begins with another seed
    ├── Unavailable            503  definite: nothing was changed, try again
    │   ├── NotAPeer           503  this master accepts no writes: others do
    │   ├── NoMajority         503  this side of a split holds no majority of the voting data centres
    │   ├── ReadOnly           503  this master accepts no writes: it is a witness, by its settings
    │   └── WriteProtected     503  one of the two workers of the data centre is out of sync
    ├── QueryStopped           503  a query that was ended: over a limit, or by an operator
    ├── ClientLeft             499  the client has disconnected
    ├── OutcomeUnknown         504  accepted, not yet decided: request the URL in `Location`, /tx/{id}
    ├── Rejected               409  agreed, and refused by its evaluation: final
    ├── RolledBack             409  synchronous, and not committed in time: final
    ├── SetupError             an operator must correct it before anything runs
    ├── SparkFailed            a job of Spark failed
    └── StateError             data on disk or in Kafka contradict each other
        ├── StoreDamaged       files of a store on disk are damaged or missing: the store is set aside
        ├── ForeignRecord      another program's record in a quadlog topic: skipped
        ├── RecordsGone        an offset that must be read is not in its topic
        ├── DuplicateNode      another process runs as the same master
        └── TopicLost          a followed topic is gone, shorter, or was replaced by another one

``definite``: True if the caller may assume that nothing was changed.
"""

from __future__ import annotations

from typing import ClassVar


class QuadlogError(Exception):
    """Root of the tree.  ``status`` is the HTTP status of the response."""

    status: ClassVar[int] = 500
    definite: ClassVar[bool] = True
    final: ClassVar[bool] = False
    """True if another worker would not answer the request either."""

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        """``retry_after``: seconds after which the same request may succeed."""
        super().__init__(message)
        self.retry_after = retry_after


class UserError(QuadlogError):
    """A mistake in the request; nothing was logged and nothing was changed."""

    status = 400


class SyntaxRefused(UserError):
    """The text is neither SPARQL nor a patch; the message contains line and column."""


class Unsupported(UserError):
    """Legal SPARQL that this version does not execute; it is refused before it is logged."""

    status = 501


class TooLarge(UserError):
    """The request exceeds a size limit, such as ``max-transaction-size``."""

    status = 413


class KeyReused(UserError):
    """An ``Idempotency-Key`` was sent again with another body."""

    status = 422


class Forbidden(UserError):
    """The request is not allowed here."""

    status = 403


class NotAcceptable(UserError):
    """The requested format cannot express the answer; another one can."""

    status = 406


class NoSuchQuery(UserError):
    """No query with this id is running."""

    status = 404


class NoSuchControl(UserError):
    """No control has this name."""

    status = 404


class NoSuchWorker(UserError):
    """No heartbeat of a worker with this id was received in this data centre since the master started."""

    status = 404


class StillServing(UserError):
    """A worker whose heartbeats still arrive cannot be dismissed."""

    status = 409


class NoSuchPeer(UserError):
    """No peer has this id; or the settings do not name the peer that must be added."""

    status = 404


class NoSuchSetting(UserError):
    """No setting that all masters share has this name."""

    status = 404


class NoSuchReport(UserError):
    """This master has no report of a split of this name."""

    status = 404


class SettingStays(UserError):
    """A setting cannot be changed now, or not to this value here."""

    status = 409


class PlanOutdated(UserError):
    """The end of a split cannot be approved as it was foreseen."""

    status = 409


class PeersStay(UserError):
    """The peers cannot be changed as requested, or already are so."""

    status = 409


class OtherHistory(UserError):
    """The point in the log that a read requires is not in the log as it is known here."""

    status = 409


class NotEmpty(UserError):
    """A seed must be the beginning of a log, and this log has already begun."""

    status = 409


class UnsupportedMediaType(UserError):
    """The body has a media type that is not accepted."""

    status = 415


class NoSuchRepository(UserError):
    """The path names another repository than the one served here."""

    status = 404


class NoSuchSeed(UserError):
    """No seed of this signature is kept here."""

    status = 404


class NoSuchCopy(UserError):
    """No copy of this digest is kept here any more."""

    status = 404


class DamagedChunk(UserError):
    """The received bytes are not those that were sent: request them again."""


class Unavailable(QuadlogError):
    """This node cannot execute the request now; nothing was changed."""

    status = 503


class NotAPeer(Unavailable):
    """This master does not take part in the agreement: it accepts no writes."""


class NoMajority(Unavailable):
    """The view of this master holds no majority of the voting data centres: others may have agreed on more."""


class ReadOnly(Unavailable):
    """This master is a witness by its settings: it votes, and accepts no writes."""


class WriteProtected(Unavailable):
    """One of the two workers of this data centre is out of sync: no client's write is accepted until it is rebuilt."""


class QueryStopped(QuadlogError):
    """A query was ended by a limit or by an operator; another worker would not answer it either."""

    status = 503
    final = True


class ClientLeft(QuadlogError):
    """The client has disconnected: nobody receives the answer."""

    status = 499


class OutcomeUnknown(QuadlogError):
    """The transaction was accepted and is not decided yet: ``/tx/{id}`` reports the outcome.

    The status is not 503: that is always definite, and proxies and clients repeat requests after it.
    """

    status = 504
    definite = False

    def __init__(self, message: str, *, ask: str | None = None, retry_after: int | None = None) -> None:
        """`ask`: URL that reports the outcome once it is known; the ``Location`` of the response."""
        super().__init__(message, retry_after=retry_after)
        self.ask = ask


class Rejected(QuadlogError):
    """A transaction that was agreed and refused by its evaluation: everywhere and permanently."""

    status = 409


class RolledBack(QuadlogError):
    """A synchronous transaction that was agreed, and not committed in time: it is applied nowhere, permanently."""

    status = 409


class SetupError(QuadlogError):
    """An error in settings, ports, directories or Java, which an operator must correct first."""


class SparkFailed(QuadlogError):
    """A job of Spark failed: no space, lost executors, or a deleted topic."""


class StateError(QuadlogError):
    """Stored data contradict each other or the log; the process stops instead of guessing."""


class StoreDamaged(StateError):
    """Files of a store on disk are damaged or missing."""


class ForeignRecord(StateError):
    """A record in a quadlog topic that another program wrote, or that cannot be decoded."""


class RecordsGone(StateError):
    """An offset that must be read is not in its topic."""

    def __init__(self, topic: str, offset: int, why: str) -> None:
        """`why`: Kafka's error text."""
        super().__init__(
            f"{topic} at offset {offset}: {why}. Its records were deleted (retention.ms, retention.bytes,"
            " kafka-delete-records), or its end was lost; set retention.ms to -1, and see 'Records were deleted' in"
            " docs/operating.md"
        )


class DuplicateNode(StateError):
    """Another process runs as this master: neither would keep the promises that the other posts under their id."""

    def __init__(self, node: str, why: str) -> None:
        """`why`: the observation that shows it."""
        super().__init__(
            f"{node} runs twice, {why}. This process stops. Stop all that have this node-id, give each a node-id and a"
            " data-dir of its own, and start this one again: it comes back as one without its disk"
        )


class TopicLost(StateError):
    """Kafka has lost a followed topic or its end: a node that continued would forget what it took part in."""

    def __init__(self, what: str) -> None:
        """`what`: the topic, and the observation that shows the loss."""
        super().__init__(
            f"{what}. Have that Kafka back as it was (is a volume not mounted? is it another cluster?), or stop all of"
            " this data centre and run `quadlog dc rebuild --config MASTER.toml` once. Nothing was changed"
        )


def error_named(name: str) -> type[QuadlogError]:
    """Return the class with this name in the tree; the root if no class has it.

    >>> error_named("Forbidden").status
    403
    """
    classes = [QuadlogError]
    for known in classes:
        classes += known.__subclasses__()
    return next((known for known in classes if known.__name__ == name), QuadlogError)
