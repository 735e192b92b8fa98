"""The errors that quadlog raises, in one tree: each class has the HTTP status of its response, or that of its base."""

from __future__ import annotations

from typing import ClassVar


class QuadlogError(Exception):
    """Root of the tree."""

    status: ClassVar[int] = 500
    """HTTP status of the response."""
    definite: ClassVar[bool] = True
    """True if the caller may assume that nothing was changed."""
    final: ClassVar[bool] = False
    """True if another worker would not answer the request either."""

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        """`status`: the HTTP status of this class and of those below it; None: that of its base."""
        super().__init_subclass__()
        if status is not None:
            cls.status = status

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        """``retry_after``: seconds after which the same request may succeed."""
        super().__init__(message)
        self.retry_after = retry_after


class UserError(QuadlogError, status=400):
    """A mistake in the request; nothing was logged and nothing was changed."""


class SyntaxRefused(UserError):
    """The text is neither SPARQL nor a patch; the message contains line and column."""


class Unsupported(UserError, status=501):
    """Legal SPARQL that this version does not execute; it is refused before it is logged."""


class TooLarge(UserError, status=413):
    """The request exceeds a size limit, such as ``max-transaction-size``."""


class KeyReused(UserError, status=422):
    """An ``Idempotency-Key`` was sent again with another body."""


class Forbidden(UserError, status=403):
    """The request is not allowed here."""


class NotAcceptable(UserError, status=406):
    """The requested format cannot express the answer; another one can."""


class NoSuchQuery(UserError, status=404):
    """No query with this id is running."""


class NoSuchControl(UserError, status=404):
    """No control has this name."""


class NoSuchWorker(UserError, status=404):
    """No heartbeat of a worker with this id was received in this data centre since the master started."""


class StillServing(UserError, status=409):
    """A worker whose heartbeats still arrive cannot be dismissed."""


class NoSuchPeer(UserError, status=404):
    """No peer has this id; or the settings do not name the peer that must be added."""


class NoSuchSetting(UserError, status=404):
    """No setting that all masters share has this name."""


class NoSuchReport(UserError, status=404):
    """This master has no report of a split of this name."""


class SettingStays(UserError, status=409):
    """A setting cannot be changed now, or not to this value here."""


class PlanOutdated(UserError, status=409):
    """The end of a split cannot be approved as it was foreseen."""


class PeersStay(UserError, status=409):
    """The peers cannot be changed as requested, or already are so."""


class OtherHistory(UserError, status=409):
    """The point in the log that a read requires is not in the log as it is known here."""


class NotEmpty(UserError, status=409):
    """A seed must be the beginning of a log, and this log has already begun."""


class UnsupportedMediaType(UserError, status=415):
    """The body has a media type that is not accepted."""


class NoSuchRepository(UserError, status=404):
    """The path names another repository than the one served here."""


class NoSuchSeed(UserError, status=404):
    """No seed of this signature is kept here."""


class NoSuchCopy(UserError, status=404):
    """No copy of this digest is kept here any more."""


class DamagedChunk(UserError):
    """The received bytes are not those that were sent: request them again."""


class Unavailable(QuadlogError, status=503):
    """This node cannot execute the request now; nothing was changed."""


class NotAPeer(Unavailable):
    """This master does not take part in the agreement: it accepts no writes."""


class NoMajority(Unavailable):
    """The view of this master holds no majority of the voting data centres: others may have agreed on more."""


class ReadOnly(Unavailable):
    """This master is a witness by its settings: it votes, and accepts no writes."""


class WriteProtected(Unavailable):
    """One of the two workers of this data centre is out of sync: no client's write is accepted until it is rebuilt."""


class QueryStopped(QuadlogError, status=503):
    """A query was ended by a limit or by an operator; another worker would not answer it either."""

    final = True


class ClientLeft(QuadlogError, status=499):
    """The client has disconnected: nobody receives the answer."""


class OutcomeUnknown(QuadlogError, status=504):
    """The transaction was accepted and is not decided yet: ``/tx/{id}`` reports the outcome.

    The status is not 503: that is always definite, and proxies and clients repeat requests after it.
    """

    definite = False

    def __init__(self, message: str, *, ask: str | None = None, retry_after: int | None = None) -> None:
        """`ask`: URL that reports the outcome once it is known; the ``Location`` of the response."""
        super().__init__(message, retry_after=retry_after)
        self.ask = ask


class Rejected(QuadlogError, status=409):
    """A transaction that was agreed and refused by its evaluation: everywhere and permanently."""


class RolledBack(QuadlogError, status=409):
    """A synchronous transaction that was agreed, and not committed in time: it is applied nowhere, permanently."""


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
