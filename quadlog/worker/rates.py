"""How fast this worker catches up, as it measured that: kept in its data-dir, for the next time it has to choose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypedDict

from quadlog.core.catchup import SPEED, Rates

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

LEAST: Final = 5_000
"""Effects that a measurement takes at the least: of less its start tells more than its rate."""


class Measured(TypedDict, total=False):
    """As `Rates` has them."""

    incremental: float
    compacted: float
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

    def _measured(self) -> dict[str, float]:
        try:
            said: dict[str, Any] = json.loads(self._path.read_text())
            rates = {name: float(value) for name, value in said.items()}
            Rates(**rates)
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
        return rates if all(rate > 0 for rate in rates.values()) else {}


class Stretch:
    """Measures while batch after batch is applied, with no wait between them."""

    def __init__(self, file: RatesFile) -> None:
        """None goes on."""
        self._file = file
        self._began, self._first = 0.0, 0

    def note(self, index: int, moment: float, *, goes_on: bool) -> None:
        """After a turn.

        Args:
            index: of the effect applied last.
            moment: now, in steady milliseconds.
            goes_on: whether there may be more to apply.

        """
        if not self._began:
            self._began, self._first = (moment, index) if goes_on else (0.0, 0)
            return
        if not goes_on:
            effects, seconds = index - self._first, (moment - self._began) / 1000
            self._began = 0.0
            if effects >= LEAST and seconds > 0:
                self._file.keep(incremental=effects / seconds)
