"""Many runs of the weather: `make sim`."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.cluster_settings import SplitRecovery
from quadlog.web.server import collect_seldom
from tests.support.agreement.coverage import table
from tests.support.agreement.shrink import shrunk
from tests.support.agreement.weather import Weather
from tests.support.agreement.world import TINY, USUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.messages import AgreementLimits

SHARE = 20
"""Seeds that a process takes at once."""


class Report(NamedTuple):
    """What came of some seeds."""

    seeds: int
    """How many passed."""
    events: int
    met: Counter[tuple[str, str]]
    """How often a step was made while a fault was near."""
    failure: str
    """Of the first that failed."""


def limits_of(seed: int) -> AgreementLimits:
    """Every fifth run posts three pairs at a time: it takes longer."""
    return TINY if seed % 5 == 4 else USUAL


def some(
    seeds: Iterable[int],
    *,
    masters: int | None = None,
    until: float = math.inf,
    shrinks: bool = False,
    recovery: SplitRecovery | None = None,
    synchronous: bool = False,
) -> Report:
    """These seeds in turn, or fewer if it is late or one fails."""
    passed, events, met = 0, 0, Counter[tuple[str, str]]()
    for seed in seeds:
        if time.monotonic() > until:
            break
        weather = Weather(
            seed, masters=masters, limits=limits_of(seed), recovery=recovery, synchronous=synchronous
        )
        try:
            weather.run()
        except AssertionError as error:
            return Report(passed, events, met, failed(weather, error, masters=masters, shrinks=shrinks))
        passed += 1
        events += weather.coverage.events
        met += weather.coverage.met
    return Report(passed, events, met, "")


def failed(weather: Weather, error: AssertionError, *, masters: int | None, shrinks: bool) -> str:
    """Which seed, why, and the shortest story that was found of it."""
    chosen = "" if masters is None else f" masters={masters},"
    chosen += f" recovery=SplitRecovery.{weather.world.recovery.name},"
    chosen += " synchronous=True," if weather.world.safety.limbo.is_used else ""
    run = f"Weather({weather.seed},{chosen} limits=limits_of({weather.seed})).run()"
    said = f"{type(error).__name__}: {error}\n{run}"
    story = shrunk(weather.world, error) if shrinks else ""
    return f"{said}\n{story}" if story else said


def _reports(
    firsts: Iterable[int],
    until: float,
    *,
    processes: int,
    shrinks: bool,
    recovery: SplitRecovery | None,
    synchronous: bool,
) -> Iterator[Report]:
    shares = (range(first, first + SHARE) for first in firsts)
    run = partial(some, until=until, shrinks=shrinks, recovery=recovery, synchronous=synchronous)
    if processes == 1:
        yield from map(run, shares)
        return
    with ProcessPoolExecutor(processes, initializer=collect_seldom) as pool:  # as a master's process does
        futures = [pool.submit(run, share) for share in shares]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main(
    *,
    first: int,
    seeds: int,
    seconds: float,
    processes: int,
    shrink: bool,
    recovery: SplitRecovery | None,
    synchronous: bool,
) -> int:
    """Seeds in turn, until there were so many, or for so long; a failing one replays exactly."""
    started = time.monotonic()
    until = started + seconds
    met = Counter[tuple[str, str]]()
    passed = events = 0
    firsts = range(first, first + seeds, SHARE)
    reports = _reports(
        firsts, until, processes=processes, shrinks=shrink, recovery=recovery, synchronous=synchronous
    )
    for report in reports:
        if report.failure:
            print(report.failure)
            return 1
        passed += report.seeds
        events += report.events
        met += report.met
    took = time.monotonic() - started
    print(table(met))
    print(f"{passed} passed, 0 failed: {events:,} events in {took:.0f} s, {events / took * 60:,.0f} a minute")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The agreement in bad weather.")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed after this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--shrink", action=argparse.BooleanOptionalAction, default=True, help="look for a short story"
    )
    parser.add_argument(
        "--recovery", type=SplitRecovery, choices=list(SplitRecovery), help="in all runs, not as drawn"
    )
    parser.add_argument("--synchronous", action="store_true", help="some transactions are, in all runs")
    sys.exit(main(**vars(parser.parse_args())))
