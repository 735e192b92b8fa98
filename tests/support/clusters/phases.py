"""The phases of leaving a view and of being let in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from quadlog.failpoints import Failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator


DCS = ("dc1", "dc2", "dc3")


VOTE = (Failpoint.VOTE_SAVED, Failpoint.VOTE_POSTED, Failpoint.INSTALLED)


DUTY = (Failpoint.BEFORE_HANDOVER, Failpoint.HANDED_OVER)


ASKING = (Failpoint.JOINING, Failpoint.BESIDE_BEGUN, Failpoint.HALF_BESIDE, *VOTE[:2])


GIVING_WAY = (
    Failpoint.CUT_SAID,
    Failpoint.HALF_BEHIND_CUT,
    Failpoint.REWIND_SAID,
    Failpoint.HALF_BEHIND_REWIND,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Who dies where."""

    apart: Literal["the home", "another"]
    """What is cut off."""
    dies: Literal["apart", "home", "lower", "higher"]
    """Whose master dies: the one that is cut off, the home of those who stay, the lower or the higher of them."""
    leaving: tuple[Failpoint, ...] = ()
    """Where it dies while the two are apart."""
    rejoining: tuple[Failpoint, ...] = ()
    """And once they hear each other again."""

    @property
    def points(self) -> tuple[Failpoint, ...]:
        """All of them."""
        return (*self.leaving, *self.rejoining)

    def __str__(self) -> str:
        """What a report calls it."""
        back = ("back", *self.rejoining) if self.rejoining else ()
        return f"{self.apart} is cut off, {self.dies} dies: {', '.join([*self.leaving, *back])}"

    def each(self) -> Iterator[Case]:
        """The same with one death each."""
        for point in self.leaving:
            yield replace(self, leaving=(point,), rejoining=())
        for point in self.rejoining:
            yield replace(self, leaving=(), rejoining=(point,))

    def roles(self, home: str) -> tuple[str, list[str], str]:
        """The data centre that is cut off, those that stay, and the one whose master dies."""
        apart = home if self.apart == "the home" else max({*DCS} - {home})
        stay = [dc for dc in DCS if dc != apart]
        dies = {
            "apart": apart,
            "home": home if home in stay else stay[0],
            "lower": stay[0],
            "higher": stay[1],
        }
        return apart, stay, dies[self.dies]


CASES = (
    Case(
        apart="another",
        dies="apart",
        leaving=(Failpoint.INSTALLED, *DUTY),
        rejoining=(*ASKING, Failpoint.ADOPTED, *GIVING_WAY),
    ),
    Case(
        apart="the home",
        dies="apart",
        leaving=(Failpoint.GIVEN_UP,),
        rejoining=(*ASKING, Failpoint.INSTALLED, *GIVING_WAY),
    ),
    Case(apart="the home", dies="lower", leaving=(Failpoint.GIVEN_UP, *VOTE[1:], *DUTY), rejoining=VOTE),
    Case(apart="another", dies="home", leaving=DUTY, rejoining=DUTY),
    Case(apart="another", dies="higher", leaving=(Failpoint.GIVEN_UP,), rejoining=(Failpoint.INSTALLED,)),
    Case(apart="another", dies="higher", leaving=(Failpoint.INSTALLED,), rejoining=(Failpoint.VOTE_SAVED,)),
)
"""What is saved at once is one death: who proposes gives up and votes with one save, who follows installs with it."""


PHASES = frozenset(point for case in CASES for point in case.points)
