"""Producers of the effects topic: effects, the records that decide which effects count, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from producers import Producer
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
)
from quadlog.core.records import Outcome

if TYPE_CHECKING:
    from quadlog.core.records import Effect, Fence, Handover, Rewind, Seed, Undecided
    from quadlog.ports import Headers, Outlet, Record


_KINDS: Final = {
    Outcome.APPLIED: "effect",
    Outcome.REJECTED: "effect.rejected",
    Outcome.ROLLED_BACK: "effect.rolled-back",
    Outcome.SUSPENDED: "effect.suspended",
}
"""Types of the CloudEvents."""


class EffectsProducer(Producer):
    """Producer of effects and fences, for the evaluating worker."""

    def __init__(self, outlet: Outlet, topic: str, worker: str, dc: str) -> None:
        """Write to `topic` as the evaluating worker `worker` of the data centre `dc`."""
        super().__init__(outlet, topic, worker)
        self._dc = dc.encode()

    def publish(
        self, effect: Effect, *, at: int, epoch: int = 1, traceparent: str = "", by_effect: bool = False
    ) -> None:
        """Write one effect; it counts once it is read back.

        `at`: milliseconds since 1970; `epoch`: epoch of the view of its term.
        `by_effect`: True if only the effect shows that its entry is synchronous.
        """
        index, values = str(effect.index), codec.encode_effect(effect)
        self._write(
            _KINDS[effect.outcome],
            values,
            key=index,
            event=f"{index}/{effect.attempt}",
            at=at,
            more=[
                (INDEX, index.encode()),
                (ATTEMPT, str(effect.attempt).encode()),
                (OUTCOME, effect.outcome.encode()),
                *(((SYNCHRONOUS, b"by-effect"),) if by_effect else ()),
                (CHUNKS, str(len(values)).encode()),
                *self._term_of(effect, epoch),
            ],
            traceparent=traceparent,
        )

    def publish_undecided(self, undecided: Undecided, *, at: int, epoch: int = 1) -> None:
        """Write that an entry is synchronous by its effect and undecided.  `epoch`: epoch of the view of its term."""
        index, attempt = str(undecided.index), str(undecided.attempt)
        more = [(UNDECIDED, index.encode()), (ATTEMPT, attempt.encode()), *self._term_of(undecided, epoch)]
        event = f"undecided/{index}/{attempt}"
        self._write("undecided", [codec.encode(undecided)], key=index, event=event, at=at, more=more)

    def publish_fence(self, fence: Fence, *, at: int, epoch: int = 1) -> None:
        """Write a fence, which announces a takeover.  `epoch`: epoch of the view of its term."""
        attempt = str(fence.attempt)
        more = [(ATTEMPT, attempt.encode()), *self._term_of(fence, epoch)]
        self._write("fence", [codec.encode(fence)], key="fence", event=f"fence/{attempt}", at=at, more=more)

    def _term_of(self, said: Effect | Undecided | Fence, epoch: int) -> Headers:
        return [
            (TERM, said.term.hex().encode()),
            (EPOCH, str(epoch).encode()),
            (EVALUATED_IN, self._dc),
        ]


class EffectsMirror(Producer):
    """Producer of a master's records in its data centre's effects topic.

    These are copies, record by record, handovers, rewinds and a seed.
    """

    def publish_handover(self, handover: Handover, *, at: int) -> None:
        """Write a handover: after it, only effects of its term count."""
        self._write(
            "handover",
            [codec.encode(handover)],
            key="handover",
            event=f"handover/{handover.epoch}/{handover.index}",
            at=at,
            more=[
                (HANDOVER, str(handover.index).encode()),
                (TERM, handover.term.hex().encode()),
                (EPOCH, str(handover.epoch).encode()),
            ],
        )

    def publish_rewind(self, rewind: Rewind, *, at: int) -> None:
        """Write a rewind: all stores go back to its effect, and other effects follow."""
        event, value = f"rewind/{rewind.epoch}", codec.encode(rewind)
        more = [(REWIND, str(rewind.index).encode()), (EPOCH, str(rewind.epoch).encode())]
        self._write("rewind", [value], key="rewind", event=event, at=at, more=more)

    def publish_seed(self, seed: Seed, *, epoch: int = 1) -> None:
        """Write the seed, with which the log begins.  `epoch`: epoch of the view installed here."""
        signature, value = seed.signature.hex(), codec.encode(seed)
        more = [(SEED, signature.encode()), (EPOCH, str(epoch).encode())]
        self._write("seed", [value], key="seed", event=f"seed/{signature[:16]}", at=seed.at, more=more)

    def copy(self, record: Record, *, origin: str, epoch: int) -> None:
        """Write a copy of a record of `origin`, another data centre.  `epoch`: epoch of the view installed here."""
        mirrored = [
            (MIRRORED, str(record.offset).encode()),
            (MIRRORED_FROM, origin.encode()),
            (EPOCH, str(epoch).encode()),
        ]
        self._outlet.produce(
            self._topic, key=record.key, values=[record.value], headers=[*record.headers, *mirrored]
        )
