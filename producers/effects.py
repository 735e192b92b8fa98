"""What each entry did, and who may say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.model import Outcome
from quadlog.envelope import ATTEMPT, CHUNKS, INDEX, MIRRORED, OUTCOME, headers

if TYPE_CHECKING:
    from quadlog.core.model import Effect, Fence
    from quadlog.ports import Outlet, Record


class EffectsProducer:
    """Says effects and fences: the evaluating worker's part."""

    def __init__(self, outlet: Outlet, topic: str, worker: str) -> None:
        """`worker`: who evaluates."""
        self._outlet, self._topic, self._worker = outlet, topic, worker

    def say(self, effect: Effect, *, at: int, traceparent: str = "") -> None:
        """Send one effect; it counts once it is read back."""
        kind = "quadlog.effect" if effect.outcome is Outcome.APPLIED else "quadlog.effect.rejected"
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
                (CHUNKS, str(len(values)).encode()),
            ],
        )

    def fence(self, fence: Fence, *, at: int) -> None:
        """Announce a take-over."""
        envelope = headers(event=f"fence/{fence.attempt}", source=self._worker, kind="quadlog.fence", at=at)
        self._outlet.produce(
            self._topic,
            key=b"fence",
            values=[codec.encode_fence(fence)],
            headers=[*envelope, (ATTEMPT, str(fence.attempt).encode())],
        )


class EffectsMirror:
    """Copies the evaluating data centre's effects, record by record, into the own one's topic."""

    def __init__(self, outlet: Outlet, topic: str) -> None:
        """`topic`: the own data centre's effects."""
        self._outlet, self._topic = outlet, topic

    def copy(self, record: Record) -> None:
        """Send a copy that says what it is a copy of."""
        self._outlet.produce(
            self._topic,
            key=record.key,
            values=[record.value],
            headers=[*record.headers, (MIRRORED, str(record.offset).encode())],
        )
