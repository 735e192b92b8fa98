"""A failing run, told again without whatever is not needed for it to fail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support.agreement.world import Event, World

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 30


def shrunk(world: World, error: AssertionError) -> str:
    """The story of a world that broke, as short as could be found in half a minute; nothing if it does not break again.

    Events are left out, the larger parts first, as long as the same is said in the end.
    """
    what = kind_of(error)
    story = world.told
    if not _breaks(world, story, what):
        return ""
    until = time.monotonic() + PATIENCE_S
    size = max(1, len(story) // 2)
    while time.monotonic() < until:
        at, before = 0, len(story)
        while at < len(story) and time.monotonic() < until:
            shorter = [*story[:at], *story[at + size :]]
            if _breaks(world, shorter, what):
                story = shorter
            else:
                at += size
        if size == 1 and len(story) == before:
            break
        size = max(1, size // 2)
    masters = " ".join(f"{name}:{centre}" for name, centre in world.masters.items())
    return "\n".join(
        [
            f"masters {masters}, lag {world.lag:.0f} ms, put off {world.put_off}, {world.recovery}",
            f"{world.limits}",
            *map(str, story),
        ]
    )


def kind_of(error: AssertionError) -> str:
    """What is wrong, without whose and which."""
    return " ".join(word for word in str(error).split()[:12] if word.isalpha())


def _breaks(world: World, story: Sequence[Event], what: str) -> bool:
    again = World(
        world.masters,
        limits=world.limits,
        lag=world.lag,
        newcomers=world.newcomers,
        put_off=world.put_off,
        witnesses=world.witnesses,
        recovery=world.recovery,
    )
    again.transactions = world.transactions
    try:
        for event in story:
            again.play(event)
    except AssertionError as error:
        return kind_of(error) == what
    return False
