"""How fast this worker catches up, as it measured that: kept in its data-dir, for the next time it has to choose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypedDict

from quadlog.core.catchup import SPEED, Rates

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

LEAST: Final = 20_000
"""Effects that a measurement takes at the least: of less its start tells more than its rate."""


IDLE_MS: Final = 5_000.0
"""Without a further effect, after which a start is not measured any more: what the topic held may have been a branch,
or nobody evaluates, and its end would come with tomorrow's updates."""
TELLING: Final = 500_000
"""Effects of a bundle that tell how fast they are compacted: of less, the start of Spark is most of the time."""
LEAST_START_S: Final = 1.0


class Measured(TypedDict, total=False):
    """As `Rates` has them."""

    incremental: float
    compacted: float
    start_s: float
    copied: float
    restored: float


class RatesFile:
    """Whoever writes it reads it before: the way by a bundle ends before effects are applied one by one."""

    def __init__(self, path: Path, *, speed: float = SPEED) -> None:
        """Nothing is read yet; where there is nothing, or nothing of ours, it says what is guessed.

        Args:
            path: the file.
            speed: bits/s of the network, as long as nothing was copied.

        """
        self._path, self._speed = path, speed

    def read(self) -> Rates:
        """What is known."""
        return Rates(**{"copied": self._speed} | self._measured())

    def keep(self, **rates: Unpack[Measured]) -> None:
        """What was measured of one way."""
        making = self._path.with_suffix(".new")
        making.write_text(json.dumps(self._measured() | rates))
        making.replace(self._path)

    def keep_bundle(self, effects: int, seconds: float) -> None:
        """What making and taking a bundle took: a large one tells the rate, a small one what comes before."""
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


class Stretch:
    """Measures a start: from its first turn until all is applied, effect by effect, that was on the topic then.

    All of it, with the waits for Kafka: of a batch that was heard and decoded before, the rate is that of its commit.
    """

    def __init__(self, file: RatesFile, until: int) -> None:
        """It has not begun.

        Args:
            file: where the rate is kept.
            until: index of the newest effect at this start.

        """
        self._file, self._until = file, until
        self._began: tuple[int, float] | None = None
        self._moved = 0, 0.0
        self._is_over = False

    def note(self, index: int, moment: float) -> None:
        """After a turn.

        Args:
            index: of the effect applied last.
            moment: now, in steady milliseconds.

        """
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
