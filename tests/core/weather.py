"""Weather: the real core under one seeded scheduler that owns time, order and chance.

Masters of several data centres, with clocks of their own that jump, post to topics that others read late,
twice or in leaps. Links are cut, one way too; who hears a post passes it on where it is not heard. Payloads
arrive late or not at all; clients try the same id at several masters; a process may be stopped for a while,
hear nothing, or die before any single effect.

Safety is asserted after every step (`safety`); liveness once the weather clears, and of each side of a cut.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.model import Transaction
from tests.core.shrink import shrunk
from tests.core.world import TINY, USUAL, Event, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quadlog.core.messages import Limits, Save
    from tests.core.cluster import Logged, Member

CLEAR = 400
"""Rounds after which everything must be agreed once nothing fails any more."""
RECENT = 60
"""Steps for which a fault counts as near, in the table of what was covered."""
FAULTS = (
    *("split", "pair cut", "one way", "relay", "late payload", "leap"),
    *("repeat", "crash", "stall", "clock", "retry", "join", "dry", "deaf"),
)
STEPS = ("collect", "add", "give up", "ask to join", "vote", "install", "give way")
SHARE = 20
"""Seeds that a process takes at once."""


class Weather:
    """One run."""

    world_of = World

    def __init__(self, seed: int, *, masters: int | None = None, limits: Limits = USUAL) -> None:
        """Everything that follows is decided by the seed."""
        self.seed, self.random = seed, random.Random(seed)
        chance = self.random
        count = masters or chance.choice((2, 3, 3, 3, 4, 5, 6, 7))
        centres = chance.randint(min(2, count), min(5, count))
        names = [f"m{number}" for number in range(1, count + 1)]
        placed = {
            name: f"dc{number + 1 if number < centres else chance.randint(1, centres)}"
            for number, name in enumerate(names)
        }
        self.lag = chance.choice((400.0, 1000.0, 2500.0)) * (4 if limits is TINY else 1)
        self.leaps = chance.choice((0.0, 0.05, 0.3))
        """How often a reader misses all posts but the newest."""
        self.skews = chance.choice(((0,), (0, -40, 60), (0, -3000, 7_200_000, -7_200_000)))
        self.world = self.world_of(placed, limits=limits, lag=self.lag)
        self.masters, self.members = placed, list(self.world.members.values())
        self.covered: Counter[tuple[str, str]] = Counter()
        self.events = 0
        self.at = 5000.0
        self.cut: set[tuple[str, str]] = set()
        """(from, to): what is said in the one is not heard in the other."""
        self.dry: set[tuple[str, str]] = set()
        """(from, to): posts are heard, payloads do not come."""
        self.deaf = ""
        """Of all masters this one alone hears nothing, not even what is said beside it."""
        self._slower = 10 if limits is TINY else 1
        self._near: dict[str, int] = {}
        self._stopped: dict[str, float] = {}
        self._read: dict[tuple[str, str], int] = {}
        self._relayed: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
        self._read_relayed: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[bytes, bytes], int] = {}
        self._standing = {member.name: member.core.standing for member in self.members}
        for member in self.members:
            self._watch(member)
            self._set_clock(member)

    def _watch(self, member: Member) -> None:
        def saved(save: Save, lost: Sequence[Logged]) -> None:
            self.world.safety.saved(member, save, lost)
            if save.entries:
                self._cover("add")

        member.saved = saved

    # --- what happens -------------------------------------------------------------------------------

    def run(self) -> None:
        """Bad weather, then clear."""
        for _ in range(self.random.randint(1, 6)):
            self._turn_the_wind()
            for _ in range(self.random.randint(50, 1500)):
                self.step()
        if self.random.random() < 0.25 and not self.deaf:
            self._leave_the_sides_alone()
        self._clear()

    def _turn_the_wind(self) -> None:
        """Which links are cut from now on."""
        chance, centres = self.random, sorted(set(self.masters.values()))
        self.cut, self.dry, self.deaf = set(), set(), ""
        if chance.random() < 0.1:
            self.deaf = chance.choice(self.members).name
        if len(centres) < 2:
            return
        if chance.random() < 0.15:
            dry = chance.choice(centres)
            self.dry = {(other, dry) for other in centres if other != dry}
        kind = chance.random()
        if 0.25 <= kind < 0.6:
            one, other = chance.sample(centres, 2)
            self.cut = {(one, other)} if kind < 0.4 else {(one, other), (other, one)}
        elif kind >= 0.6:
            left = set(chance.sample(centres, chance.randrange(1, len(centres))))
            self.cut = {(a, b) for a, b in permutations(centres, 2) if (a in left) != (b in left)}

    def step(self) -> None:
        """One event."""
        self.events += 1
        self.at += self.random.random() * 20
        member = self.random.choice(self.members)
        if self._stopped.get(member.name, 0.0) > self.at:
            self._note("stall")
            return
        self._do(member)
        self._note_standing(member)

    def _do(self, member: Member) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self._submit(member)
        elif chance < 0.053 and self._numbers:
            self._note("retry")
            last = len(self._numbers) - 1
            self._play("submit", member, number=self.random.randint(max(0, last - 2), last))
        elif chance < 0.0545:
            self._play("restart", member)
            self._note_crash(member)
        elif chance < 0.0555:
            self._set_clock(member)
        elif chance < 0.056:
            self._stopped[member.name] = self.at + self.random.random() * 2 * self.lag
        elif chance < 0.17:
            self._acquire(member)
        elif chance < 0.20:
            self._follow(member)
        elif chance < 0.45:
            self._turn(member)
        elif others := [m for m in self.members if m is not member]:
            self._deliver(self.random.choice(others), member)

    def _play(self, what: str, member: Member, other: str = "", number: int = 0) -> None:
        self.world.play(Event(self.at, what, member.name, other, number))

    def _submit(self, member: Member) -> None:
        number = len(self._numbers)
        digest = blake2b(f"{self.seed}/{number}".encode(), digest_size=32).digest()
        transaction = Transaction(id=digest[:16], digest=digest)
        self.world.transactions.append(transaction)
        self._numbers[transaction.key] = number
        self._play("submit", member, number=number)

    def _acquire(self, member: Member) -> None:
        """A payload that another data centre in reach has, or another master of this one has written."""
        for other in self.random.sample(self.members, len(self.members)):
            if (other.dc, member.dc) in self.dry:
                self._note("dry")
            elif self._is_heard(other.dc, member.dc):
                missing = next((key for key in reversed(other.kafka) if key not in member.told), None)
                if missing is not None:
                    self._play("acquire", member, number=self._numbers[missing])
                    return

    def _set_clock(self, member: Member) -> None:
        self._note("clock")
        self._play("clock", member, number=self.random.choice(self.skews) + self.random.randint(-50, 50))

    def _follow(self, member: Member) -> None:
        joining = member.core.standing.joining
        if joining is None:
            return
        reach = [m for m in self.members if m.name in joining.members and self._is_heard(m.dc, member.dc)]
        if reach:
            self._note("join")
            self._play("follow", member, self.random.choice(reach).name, self.random.randint(1, 60))

    def _turn(self, member: Member) -> None:
        dies = self.random.random() < 0.01
        self._play("turn", member, number=self.random.randrange(5) if dies else -1)
        if dies:
            self._note_crash(member)

    def _note_crash(self, member: Member) -> None:
        """What it had read and not saved it reads again."""
        self._note("crash")
        for other in self.members:
            at = self._read.get((member.name, other.name), 0)
            self._read[member.name, other.name] = max(0, at - self.random.randrange(40))

    def _is_heard(self, source: str, reader: str) -> bool:
        return (source, reader) not in self.cut

    def _deliver(self, sender: Member, reader: Member) -> None:
        """The next post, or in a leap the newest; now and then an old one again.  Then what others pass on."""
        if reader.name == self.deaf:
            self._note("deaf")
            return
        if not self._is_heard(sender.dc, reader.dc):
            self._note_cut(sender, reader)
            return
        at = self._read.get((reader.name, sender.name), 0)
        if at < len(sender.posts):
            if self.random.random() < self.leaps:
                at = len(sender.posts) - 1
                self._note("leap")
            self._read[reader.name, sender.name] = at + 1
            self._hear(reader, sender, at)
            if any(not self._is_heard(sender.dc, dc) for dc in self.masters.values()):
                self._relayed[reader.name].append((sender.name, at))
        elif at and self.random.random() < 0.05:
            self._note("repeat")
            self._hear(reader, sender, self.random.randrange(at))
        passed_on = self._relayed[sender.name]
        at = self._read_relayed.get((reader.name, sender.name), 0)
        if at < len(passed_on):
            self._read_relayed[reader.name, sender.name] = at + 1
            name, number = passed_on[at]
            if name != reader.name:
                self._note("relay")
                self._hear(reader, self.world.members[name], number)

    def _hear(self, reader: Member, sender: Member, number: int) -> None:
        self._play("hear", reader, sender.name, number)
        self._cover("collect")
        if any(pair.key not in reader.told for pair in sender.posts[number].queue):
            self._note("late payload")

    # --- what was covered ---------------------------------------------------------------------------

    def _note(self, fault: str) -> None:
        self._near[fault] = self.events

    def _note_cut(self, sender: Member, reader: Member) -> None:
        both = self._is_heard(reader.dc, sender.dc)
        self._note("one way" if both else "pair cut" if len(self.cut) == 2 else "split")

    def _cover(self, step: str) -> None:
        for fault, at in self._near.items():
            if self.events - at <= RECENT:
                self.covered[fault, step] += 1

    def _note_standing(self, member: Member) -> None:
        """What changed in where it stands."""
        before, after = self._standing[member.name], member.core.standing
        if before is after:
            return
        self._standing[member.name] = after
        if len(after.given_up) > len(before.given_up):
            self._cover("give up")
        if after.joining is not None and before.joining is None:
            self._cover("ask to join")
        if after.ballot != before.ballot:
            self._cover("vote")
        if before.view != after.view:
            self._cover("give way" if after.view.parent != before.view.id else "install")

    # --- liveness -----------------------------------------------------------------------------------

    def _leave_the_sides_alone(self) -> None:
        """Nothing fails any more but what is cut: each side goes on by itself, with all that is in it."""
        sides = self._sides()
        if self.dry or sides is None:
            return
        self._stopped = {}
        for _ in range(CLEAR * self._slower):
            self._round()
            if all(self._goes_on(side) for side in sides):
                return
        views = {member.name: member.core.view.members for member in self.members}
        message = f"a side does not go on: {[[member.name for member in side] for side in sides]}, {views}"
        raise AssertionError(message)

    def _sides(self) -> list[list[Member]] | None:
        """Who hears whom, if that is clear: each link is cut both ways, and nobody is between two sides."""
        centres = sorted(set(self.masters.values()))
        reach = {a: frozenset(b for b in centres if not {(a, b), (b, a)} & self.cut) for a in centres}
        if any((b, a) not in self.cut for a, b in self.cut):
            return None
        if any(reach[a] != reach[b] for a in centres for b in reach[a]):
            return None
        sides = sorted(set(reach.values()), key=sorted)
        return [[member for member in self.members if member.dc in side] for side in sides]

    def _goes_on(self, side: list[Member]) -> bool:
        names = tuple(sorted(member.name for member in side))
        return all(member.core.view.members == names and not len(member.core.queue) for member in side)

    def _round(self) -> None:
        """All turn, and hear all that they can."""
        self.at += self.lag / 20 / self._slower
        for member in self.members:
            self._acquire_all(member)
            self._play("turn", member, number=-1)
            self._follow(member)
        for reader in self.members:
            for sender in self.members:
                if sender is not reader and self._is_heard(sender.dc, reader.dc):
                    self._hear_all(reader, sender)

    def _acquire_all(self, member: Member) -> None:
        for other in self.members:
            if self._is_heard(other.dc, member.dc):
                for number in sorted(self._numbers[key] for key in other.kafka.keys() - member.told):
                    self.events += 1
                    self._play("acquire", member, number=number)

    def _hear_all(self, reader: Member, sender: Member) -> None:
        at = self._read.get((reader.name, sender.name), 0)
        self._read[reader.name, sender.name] = len(sender.posts)
        for number in range(at, len(sender.posts)):
            self.events += 1
            self._play("hear", reader, sender.name, number)

    def _clear(self) -> None:
        """All is heard by all, at once."""
        self.cut, self.dry, self.deaf, self._stopped = set(), set(), "", {}
        for _ in range(CLEAR * self._slower):
            self._round()
            if self._is_done():
                break
        self._check_the_end()

    def _is_done(self) -> bool:
        ends = {member.disk.log[-1].point if member.disk.log else None for member in self.members}
        return (
            len(ends) == 1
            and len(self.members[0].disk.log) == len(self._numbers)
            and all(set(member.core.view.members) == set(self.masters) for member in self.members)
        )

    def _check_the_end(self) -> None:
        logs = [[entry.pair.id for entry in member.disk.log] for member in self.members]
        views = [(member.core.view.epoch, member.core.view.members) for member in self.members]
        assert all(log == logs[0] for log in logs), f"not converged: {[len(log) for log in logs]}, {views}"
        assert sorted(logs[0]) == sorted(t.id for t in self.world.transactions), (
            f"lost or doubled: {len(logs[0])} of {len(self._numbers)}, {views}"
        )
        assert self._is_done(), f"not all are in one view: {views}"
        for index, (_, name) in self.world.safety.settled.items():
            assert logs[0][index - 1] == name, f"what a majority had agreed on at {index} moved"


# --- many runs ----------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """What came of some seeds."""

    seeds: int
    events: int
    covered: Counter[tuple[str, str]]
    failure: str
    """Of the first that failed."""


def limits_of(seed: int) -> Limits:
    """Every fifth run posts three pairs at a time: it takes longer."""
    return TINY if seed % 5 == 4 else USUAL


def some(first: int, until: float, *, shrinks: bool) -> Report:
    """Some seeds in turn, or fewer if it is late."""
    events, covered = 0, Counter[tuple[str, str]]()
    for seed in range(first, first + SHARE):
        if time.monotonic() > until:
            return Report(seed - first, events, covered, "")
        weather = Weather(seed, limits=limits_of(seed))
        try:
            weather.run()
        except AssertionError as error:
            return Report(seed - first, events, covered, failed(weather, error, shrinks=shrinks))
        events += weather.events
        covered += weather.covered
    return Report(SHARE, events, covered, "")


def failed(weather: Weather, error: AssertionError, *, shrinks: bool) -> str:
    """Which seed, why, and the shortest story that was found of it."""
    said = f"{type(error).__name__}: {error}\nWeather({weather.seed}, limits=limits_of({weather.seed})).run()"
    story = shrunk(weather.world, error) if shrinks else ""
    return f"{said}\n{story}" if story else said


def _reports(firsts: Iterable[int], until: float, *, processes: int, shrinks: bool) -> Iterator[Report]:
    if processes == 1:
        yield from (some(first, until, shrinks=shrinks) for first in firsts)
        return
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(some, first, until, shrinks=shrinks) for first in firsts]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main(*, first: int, seeds: int, seconds: float, processes: int, shrink: bool) -> int:
    """`make sim`: seeds in turn, until there were so many, or for so long; a failing one replays exactly."""
    started = time.monotonic()
    until = started + seconds
    covered = Counter[tuple[str, str]]()
    passed = events = 0
    for report in _reports(range(first, first + seeds, SHARE), until, processes=processes, shrinks=shrink):
        if report.failure:
            print(report.failure)
            return 1
        passed += report.seeds
        events += report.events
        covered += report.covered
    took = time.monotonic() - started
    print(" " * 13 + "".join(f"{step:>12}" for step in STEPS))
    for fault in FAULTS:
        print(f"{fault:12} " + "".join(f"{covered[fault, step]:12,}" for step in STEPS))
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
    sys.exit(main(**vars(parser.parse_args())))
