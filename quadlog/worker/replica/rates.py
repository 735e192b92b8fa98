"""Measured rates at which this worker catches up, kept in its data-dir for the next choice between the ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from quadlog.core.catchup import SPEED, Rates

if TYPE_CHECKING:
    from pathlib import Path

LEAST: Final = 20_000
"""Effects of a measurement, at least: with fewer, the result depends more on the start than on the rate."""


IDLE_MS: Final = 5_000.0
"""Milliseconds without a further effect after which a start is no longer measured.

The rest of the topic may have been a branch, or nobody evaluates, and the end would arrive with tomorrow's
updates.
"""
TELLING: Final = 500_000
"""Effects of a bundle that show how fast effects are compacted: with fewer, most of the time is the start of Spark."""
LEAST_START_S: Final = 1.0


class RatesFile:
    """File of the measured rates.

    Each change reads and rewrites the file; that is safe because catching up by a bundle ends before effects
    are applied one by one.
    """

    def __init__(self, path: Path, *, speed: float = SPEED) -> None:
        """Prepare; without a valid file the rates are guesses, that of copies is `speed` in bits/s."""
        self._path, self.speed = path, speed

    def read(self) -> Rates:
        """Return the measured rates, and guesses for the others."""
        return Rates(**{"copied": self.speed} | self._measured())

    def keep(self, **rates: float) -> None:
        """Store the rates that were measured for one way, by their names in `Rates`."""
        assert rates.keys() <= Rates.__dataclass_fields__.keys(), f"these are no rates: {rates}"
        making = self._path.with_suffix(".new")
        making.write_text(json.dumps(self._measured() | rates))
        making.replace(self._path)

    def keep_bundle(self, effects: int, seconds: float) -> None:
        """Store the time in which a bundle was made and applied.

        A large bundle gives the rate, a small one the time before the first effect.
        """
        rates = self.read()
        worked = seconds - rates.start_s
        if effects >= TELLING and worked > 0:
            self.keep(compacted=effects / worked)
        else:
            self.keep(start_s=max(seconds - effects / rates.compacted, LEAST_START_S))

    def _measured(self) -> dict[str, float]:
        try:
            said: dict[str, Any] = json.loads(self._path.read_text())
            rates = {name: float(value) for name, value in said.items()}
            Rates(**rates)
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
        return rates if all(rate > 0 for rate in rates.values()) else {}


class StartMeter:
    """Measurement of a start: from its first turn until all effects that were on the topic then are applied one by one.

    The time includes the waits for Kafka: for a batch that was received and decoded before, the rate would be
    that of its commit alone.
    """

    def __init__(self, file: RatesFile, until: int) -> None:
        """Prepare the measurement; `until`: index of the newest effect at this start."""
        self._file, self._until = file, until
        self._began: tuple[int, float] | None = None
        self._moved = 0, 0.0
        self._is_over = False

    def note(self, index: int, moment: float) -> None:
        """Record the last applied effect after a turn; `moment` is in steady milliseconds."""
        if self._is_over:
            return
        if self._began is None:
            self._began = self._moved = index, moment
            self._is_over = self._until - index < LEAST
        elif index >= self._until:
            self._is_over = True
            first, began = self._began
            if moment > began:
                self._file.keep(incremental=(index - first) * 1000 / (moment - began))
        elif index != self._moved[0]:
            self._moved = index, moment
        else:
            self._is_over = moment - self._moved[1] > IDLE_MS
