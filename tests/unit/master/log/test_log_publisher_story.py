"""Two masters that write one agreed topic, by chance: what consumers read in the end."""

from __future__ import annotations

import random

import pytest

from tests.support.masters.scribes import (
    Line,
    Topic,
    Writer,
    common,
    grown,
)


class Story:
    """Two masters of a data centre in one history after the other."""

    def __init__(self, seed: int) -> None:
        """Everything that follows is decided by the seed."""
        self.chance = random.Random(seed)
        self.topic = Topic()
        self.writers = [Writer(name, self.topic) for name in ("m1", "m2")]
        self.logs: list[tuple[int, list[Line]]] = [(1, [])]
        """Histories as they follow each other: epoch, and log; the newest one grows."""

    def step(self) -> None:
        """One event."""
        one = self.chance.choice(self.writers)
        number = self.chance.random()
        if number < 0.15:
            self._grow()
        elif number < 0.2:
            self._turn()
        elif number < 0.4:
            self._follow(one)
        elif number < 0.55 and one.sent:
            one.arrive()
        elif number < 0.9 and one.read < len(self.topic.said):
            one.hear()
        elif number < 0.93:
            one.log_publisher.lead(mine=not one.log_publisher.leads)
        elif number < 0.95:
            one.restart()

    def _grow(self) -> None:
        epoch, log = self.logs[-1]
        self.logs[-1] = epoch, grown(log, f"e{epoch}", self.chance.randint(1, 3))

    def _turn(self) -> None:
        """A view that grows from the one before, or that of another side."""
        epoch, log = self.logs[-1]
        kept = self.chance.randint(0, len(log)) if self.chance.random() < 0.6 else len(log)
        other = grown(log[:kept], f"e{epoch + 1}", self.chance.randint(0, 4))
        self.logs.append((epoch + 1, other))

    def _follow(self, one: Writer) -> None:
        """It agrees on the next entry, or comes into a newer view."""
        epoch, log = next(known for known in self.logs if known[0] == one.epoch)
        if len(one.log) < len(log) and self.chance.random() < 0.8:
            one.append(log[len(one.log)])
        elif one.epoch < self.logs[-1][0]:
            newer, other = self.chance.choice([known for known in self.logs if known[0] > epoch])
            if newer == epoch + 1 and common(one.log, other) == len(one.log) == len(log):
                one.epoch = newer
            else:
                end = self.chance.randint(0, len(other))
                self._give_way(one, other[: max(end, common(one.log, other))], newer)

    def _give_way(self, one: Writer, other: list[Line], epoch: int) -> None:
        dies = self.chance.random() < 0.2
        one.give_way(other, epoch, dies=dies)
        if dies:
            one.restart()

    def happen(self) -> None:
        """Some events; then both have the newest history."""
        for _ in range(self.chance.randint(50, 400)):
            self.step()
        epoch, log = self.logs[-1]
        for one in self.writers:
            if one.epoch < epoch:
                one.give_way(log, epoch)
            for line in log[len(one.log) :]:
                one.append(line)

    def settle(self, leader: Writer) -> None:
        """One of them leads, and all arrives."""
        for one in self.writers:
            one.log_publisher.lead(mine=one is leader)
        for _ in range(3):
            for one in self.writers:
                one.settle()


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_whatever_happens_consumers_read_one_log_without_a_gap(first: int) -> None:
    for seed in range(first, first + 100):
        story = Story(seed)
        story.happen()
        for leader in story.writers:
            story.settle(leader)
            read = story.topic.read()
            assert read.log == [line.point for line in story.logs[-1][1]], (
                f"Story({seed}), {leader.name} leads"
            )
            assert not leader.log_publisher, f"Story({seed}): {leader.name} has said all, and keeps some"
