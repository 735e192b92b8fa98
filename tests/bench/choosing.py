"""Choosing: whether a worker that may choose goes the way that turns out to be the fastest.

    python -m tests.bench.choosing [--cases 10] [--seed 1]

Cases are drawn: how long the log is, how much of it a worker lacks, how often the same quads come again, and what the
link to its donor takes (by `copy-bandwidth` there, and as `net-speed-bits-per-sec`).  In each, a copy of one worker's
directory goes the way that it chooses, with the minimum time 0 and the factor 1, from its start to the end of the log,
and other copies go the others.  What it has measured so far it knows: of all cases before, as a worker does.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.topics import Topics
from quadlog.worker.replica.rates import RatesFile
from tests.bench.catching_up import catching_up, log_of, make_topics, produce_log
from tests.support.labs import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSE: Final = 1.1
"""Two ways that differ by less are as fast: so much lies between two runs of the same."""
_SAYS: Final = re.compile(r"catch_up_started\b.*?way=(\w+)")
_DONE: Final = {"compacted": "bundle_taken", "full": "copy_taken"}
"""What a worker says that went that way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is drawn."""

    effects: int
    lacks: int
    """Of these, the last ones."""
    repeated: float
    link: float
    """Bits/s."""

    def __str__(self) -> str:
        """A line."""
        log = f"{self.lacks:>8,} of {self.effects:>8,} effects, {self.repeated:4.2f} repeated"
        return f"{log}, {self.link / 1e6:7.1f} Mbit/s"


def drawn(seed: int, cases: int) -> Iterator[Case]:
    """Sizes and links by their logarithms."""
    chance = random.Random(seed)
    for _ in range(cases):
        lacks = round(10 ** chance.uniform(3.5, 5.7))
        yield Case(
            effects=lacks + round(10 ** chance.uniform(3.5, 5.7)),
            lacks=lacks,
            repeated=chance.choice([0.0, 0.5, 0.9, 0.99]),
            link=10 ** chance.uniform(6, 9),
        )


class Choosing:
    """All cases, one after the other."""

    def __init__(self, kafka: str, directory: Path) -> None:
        """Nothing is measured yet."""
        self._kafka, self._directory = kafka, directory
        self._rates = directory / "rates.json"

    def run(self, number: int, case: Case) -> tuple[str, dict[str, float]]:
        """The way that is chosen, and the seconds that each takes."""
        place, name = self._directory / str(number), f"c{number}"
        topics = Topics(name, "dc1")
        log = log_of(case.effects, max(1, round(case.effects * (1 - case.repeated))))
        make_topics(self._kafka, topics)
        produce_log(self._kafka, topics, islice(log, case.effects - case.lacks))
        behind = place / "behind"
        with catching_up(self._kafka, name, behind, case.effects - case.lacks, catch_up="incremental"):
            pass
        self._keep_rates(behind)
        produce_log(self._kafka, topics, log)
        donor = self._copy(behind, place / "donor")
        seconds: dict[str, float] = {}
        with catching_up(
            self._kafka,
            name,
            donor,
            case.effects,
            catch_up="incremental",
            copy_bandwidth=case.link / 8,
        ) as first:
            seconds["incremental"] = first.seconds
            settings = {
                "min_time_to_consider_full_replication": 0.0,
                "full_replication_time_factor": 1.0,
                "net_speed_bits_per_sec": case.link,
            }
            copy = self._copy(behind, place / "choosing")
            chosen, seconds_ = self._go(name, copy, case, catch_up="auto", **settings)
            seconds[chosen] = min(seconds_, seconds.get(chosen, seconds_))
            for way in _DONE.keys() - {chosen}:
                _, seconds[way] = self._go(name, self._copy(behind, place / way), case, catch_up=way)
        shutil.rmtree(place)
        return chosen, seconds

    def _go(self, name: str, copy: Path, case: Case, **settings: str | float) -> tuple[str, float]:
        """The way that a worker went, and how long it took."""
        with catching_up(self._kafka, name, copy, case.effects, **settings) as found:
            said = re.sub(r"\x1b\[[0-9;]*m", "", (copy / "log").read_text())
        line = next(line for line in said.splitlines() if _SAYS.search(line))
        way = _SAYS.findall(line)[0]
        if _DONE.get(way, "") not in said:
            raise RuntimeError(said)
        print(line, flush=True)
        self._keep_rates(copy)
        return way, found.seconds

    def _copy(self, behind: Path, copy: Path) -> Path:
        shutil.copytree(behind, copy)
        if self._rates.exists():
            shutil.copy(self._rates, copy / "data" / "rates.json")
        return copy

    def _keep_rates(self, directory: Path) -> None:
        """But that of the link, which is another one each time."""
        file = directory / "data" / "rates.json"
        if file.exists():
            read = RatesFile(file).read()
            RatesFile(self._rates).keep(
                incremental=read.incremental, compacted=read.compacted, start_s=read.start_s
            )


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    right = close = 0
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "broker") as broker:
        choosing = Choosing(broker.bootstrap, Path(name))
        for number, case in enumerate(drawn(said.seed, said.cases)):
            chosen, seconds = choosing.run(number, case)
            best = min(seconds, key=lambda way: seconds[way])
            right += chosen == best
            close += seconds[chosen] <= CLOSE * seconds[best]
            times = ", ".join(f"{way} {took:.1f} s" for way, took in seconds.items())
            print(f"{case}: {chosen} chosen, {best} was fastest ({times})", flush=True)
    print(f"{right} of {said.cases} are the fastest, {close} within {CLOSE} of it")


if __name__ == "__main__":
    main()
