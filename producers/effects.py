"""Producers of the effects topic: effects, the records that decide which effects count, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.codec.envelope import (
    ATTEMPT,
    CHUNKS,
    EPOCH,
    EVALUATED_IN,
    HANDOVER,
    INDEX,
    MIRRORED,
    MIRRORED_FROM,
    OUTCOME,
    REWIND,
    SEED,
    SYNCHRONOUS,
    TERM,
    UNDECIDED,
    headers,
)
from quadlog.core.records import Outcome

if TYPE_CHECKING:
    from quadlog.core.records import Effect, Fence, Handover, Rewind, Seed, Undecided
    from quadlog.ports import Acked, Outlet, Record


_KINDS: Final = {
    Outcome.APPLIED: "quadlog.effect",
    Outcome.REJECTED: "quadlog.effect.rejected",
    Outcome.ROLLED_BACK: "quadlog.effect.rolled-back",
    Outcome.SUSPENDED: "quadlog.effect.suspended",
}
"""Types of the CloudEvents."""


class EffectsProducer:
    """Producer of effects and fences, for the evaluating worker."""

    def __init__(self, outlet: Outlet, topic: str, worker: str, dc: str) -> None:
        """Write to `topic` as the evaluating worker `worker` of the data centre `dc`."""
        self._outlet, self._topic, self._worker = outlet, topic, worker
        self._dc = dc.encode()

    def publish(
        self, effect: Effect, *, at: int, epoch: int = 1, traceparent: str = "", by_effect: bool = False
    ) -> None:
        """Write one effect; it counts once it is read back.

        Args:
            effect: the effect.
            at: milliseconds since 1970.
            epoch: epoch of the view of its term.
            traceparent: W3C trace context of the request.
            by_effect: True if only the effect shows that its entry is synchronous.

        """
        kind = _KINDS[effect.outcome]
        envelope = headers(
            event=f"{effect.index}/{effect.attempt}",
            source=self._worker,
            kind=kind,
            at=at,
            traceparent=traceparent,
        )
        index = str(effect.index).encode()
        values = codec.encode_effect(effect)
        self._outlet.produce(
            self._topic,
            key=index,
            values=values,
            headers=[
                *envelope,
                (INDEX, index),
                (ATTEMPT, str(effect.attempt).encode()),
                (OUTCOME, effect.outcome.encode()),
                *(((SYNCHRONOUS, b"by-effect"),) if by_effect else ()),
                (CHUNKS, str(len(values)).encode()),
                (TERM, effect.term.hex().encode()),
                (EPOCH, str(epoch).encode()),
                (EVALUATED_IN, self._dc),
            ],
        )

    def publish_undecided(self, undecided: Undecided, *, at: int, epoch: int = 1) -> None:
        """Write that an entry is synchronous by its effect and undecided.  `epoch`: epoch of the view of its term."""
        index = str(undecided.index).encode()
        envelope = headers(
            event=f"undecided/{undecided.index}/{undecided.attempt}",
            source=self._worker,
            kind="quadlog.undecided",
            at=at,
        )
        self._outlet.produce(
            self._topic,
            key=index,
            values=[codec.encode(undecided)],
            headers=[
                *envelope,
                (UNDECIDED, index),
                (ATTEMPT, str(undecided.attempt).encode()),
                (TERM, undecided.term.hex().encode()),
                (EPOCH, str(epoch).encode()),
                (EVALUATED_IN, self._dc),
            ],
        )

    def publish_fence(self, fence: Fence, *, at: int, epoch: int = 1) -> None:
        """Write a fence, which announces a takeover.  `epoch`: epoch of the view of its term."""
        envelope = headers(event=f"fence/{fence.attempt}", source=self._worker, kind="quadlog.fence", at=at)
        self._outlet.produce(
            self._topic,
            key=b"fence",
            values=[codec.encode(fence)],
            headers=[
                *envelope,
                (ATTEMPT, str(fence.attempt).encode()),
                (TERM, fence.term.hex().encode()),
                (EPOCH, str(epoch).encode()),
                (EVALUATED_IN, self._dc),
            ],
        )


class EffectsMirror:
    """Producer of a master's records in its data centre's effects topic.

    These are copies, record by record, handovers, rewinds and a seed.
    """

    def __init__(self, outlet: Outlet, topic: str, master: str) -> None:
        """Write to `topic`, the local data centre's effects topic, as `master`."""
        self._outlet, self._topic, self._master = outlet, topic, master

    def publish_handover(self, handover: Handover, *, at: int) -> None:
        """Write a handover: after it, only effects of its term count."""
        envelope = headers(
            event=f"handover/{handover.epoch}/{handover.index}",
            source=self._master,
            kind="quadlog.handover",
            at=at,
        )
        self._outlet.produce(
            self._topic,
            key=b"handover",
            values=[codec.encode(handover)],
            headers=[
                *envelope,
                (HANDOVER, str(handover.index).encode()),
                (TERM, handover.term.hex().encode()),
                (EPOCH, str(handover.epoch).encode()),
            ],
        )

    def publish_rewind(self, rewind: Rewind, *, at: int) -> None:
        """Write a rewind: all stores go back to its effect, and other effects follow."""
        envelope = headers(event=f"rewind/{rewind.epoch}", source=self._master, kind="quadlog.rewind", at=at)
        self._outlet.produce(
            self._topic,
            key=b"rewind",
            values=[codec.encode(rewind)],
            headers=[
                *envelope,
                (REWIND, str(rewind.index).encode()),
                (EPOCH, str(rewind.epoch).encode()),
            ],
        )

    def publish_seed(self, seed: Seed, acked: Acked | None = None, *, epoch: int = 1) -> None:
        """Write the seed, with which the log begins.  `epoch`: epoch of the view installed here."""
        signature = seed.signature.hex()
        envelope = headers(
            event=f"seed/{signature[:16]}", source=self._master, kind="quadlog.seed", at=seed.at
        )
        self._outlet.produce(
            self._topic,
            key=b"seed",
            values=[codec.encode(seed)],
            headers=[*envelope, (SEED, signature.encode()), (EPOCH, str(epoch).encode())],
            acked=acked,
        )

    def copy(self, record: Record, *, origin: str, epoch: int) -> None:
        """Write a copy of a record, with headers for the original and the view in which the copy was made.

        Args:
            record: the original, in another data centre's effects topic.
            origin: that data centre.
            epoch: epoch of the view installed here.

        """
        mirrored = [
            (MIRRORED, str(record.offset).encode()),
            (MIRRORED_FROM, origin.encode()),
            (EPOCH, str(epoch).encode()),
        ]
        self._outlet.produce(
            self._topic, key=record.key, values=[record.value], headers=[*record.headers, *mirrored]
        )
