"""Picture of a split: the common log up to the forks, and one line for each side and branch.

It has no view box: places along a line are percentages, text keeps its size, and so it fits a telephone and a desk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

from quadlog.splits.page.elements import element
from quadlog.splits.page.figures import counted, number, period

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST: Final = 34
"""Characters of a label: what fits into the right three quarters of a telephone."""
_LINE: Final = 18
"""Height of a line of text in pixels."""
_LANE: Final = 4 * _LINE + 28
_NOTE: Final = 26
_TOP: Final = 4 * _LINE + 14
"""Where the line of the winner is."""
_GAP: Final = 12
_FIRST_FORK, _LAST_FORK, _END = 7.0, 22.0, 97.0
"""Percentages of the width."""
_SHORTEST: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawnBranch:
    """A side or a branch, from its fork on."""

    fork: int
    length: int
    texts: Sequence[str]
    kind: str


def picture(report: Mapping[str, Any]) -> Element:
    """Return the SVG element."""
    winner, *branches = _lanes(report)
    forks = sorted({lane.fork for lane in branches} or {winner.fork})
    places = {
        fork: _FIRST_FORK + (_LAST_FORK - _FIRST_FORK) * place / max(1, len(forks) - 1)
        for place, fork in enumerate(forks)
    }
    longest = max(1, *(lane.length for lane in (winner, *branches)))
    shapes = list[Element]()
    # A lane with a later fork is above one with an earlier fork: so no line crosses a label.
    for position, lane in enumerate(sorted(branches, key=lambda lane: -lane.fork), 1):
        at, y = places[lane.fork], _TOP + position * _LANE
        end = _end(at, lane, longest)
        shapes += [
            _line(at, _TOP, at, y, lane.kind),
            _line(at, y, end, y, lane.kind),
            *_labels(lane, at, end, y),
        ]
    end = _end(_FIRST_FORK, winner, longest)
    shapes += [_line(0, _TOP, _FIRST_FORK, _TOP, "common"), _line(_FIRST_FORK, _TOP, end, _TOP, winner.kind)]
    shapes += _labels(winner, places[forks[-1]], end, _TOP)
    shapes += [element("circle", cx=f"{places[fork]:.1f}%", cy=_TOP, r=5, class_="fork") for fork in forks]
    notes = _notes(report)
    y = _TOP + len(branches) * _LANE + _NOTE + 4
    for position, (kind, text) in enumerate(notes):
        shapes += [
            _line(0, y + position * _NOTE, _FIRST_FORK, y + position * _NOTE, kind),
            element("text", text, x=f"{_FIRST_FORK:.1f}%", dx=_GAP, y=y + position * _NOTE + 5),
        ]
    height = y + len(notes) * _NOTE - _NOTE // 2
    return element(
        "svg",
        element("title", f"Log of {len(branches) + 1} sides and branches"),
        *shapes,
        role="img",
        width="100%",
        height=height,
    )


def _lanes(report: Mapping[str, Any]) -> list[_DrawnBranch]:
    """Return the sides, the winner first; each branch is that of a side with the same last entry."""
    names = {one["last"]["chain"]: f"branch {one['name']}"[:_LONGEST] for one in report["branches"]}
    winner, *others = report["sides"]
    fates = [names.get(side["last"]["chain"], "no branch of its own") for side in others]
    fates.insert(0, "wins" if winner["wins"] else "no side wins by rank")
    return [
        _DrawnBranch(
            fork=side["fork"] or 0,
            length=side["length"],
            texts=(_shortened(side["dcs"]), *_figures(side), fate),
            kind="wins" if side is winner else "loses",
        )
        for side, fate in zip(report["sides"], fates, strict=True)
    ]


def _figures(side: Mapping[str, Any]) -> list[str]:
    entries = f"{counted(side['length'], 'entry', 'entries')} after {number(side['fork'] or 0)}"
    return [entries, period(side["first_at"], side["last_at"])]


def _notes(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    behind = [
        ("behind", f"{_shortened([one['dc']])}: behind by {number(one['entries'])}")
        for one in report["behind"]
    ]
    return [*behind, *(("away", f"{_shortened([one['dc']])}: not reached") for one in report["unreachable"])]


def _shortened(names: Sequence[str]) -> str:
    """Return names for a label.

    >>> _shortened(["dc1", "dc2"]), _shortened([f"frankfurt-{number}" for number in range(9)])
    ('dc1, dc2', 'frankfurt-0, frankfurt-1 + 7')
    """
    fitting = len(names)
    while fitting > 1 and len(", ".join(names[:fitting])) > _LONGEST - 6:
        fitting -= 1
    text = ", ".join(names[:fitting])
    if len(text) > _LONGEST - 6:
        text = f"{text[: _LONGEST - 7]}…"
    return text if fitting == len(names) else f"{text} + {len(names) - fitting}"


def _end(start: float, lane: _DrawnBranch, longest: int) -> float:
    return start + max(_SHORTEST, (_END - start) * lane.length / longest)


def _line(x1: float, y1: int, x2: float, y2: int, kind: str) -> Element:
    return element("line", x1=f"{x1:.1f}%", y1=y1, x2=f"{x2:.1f}%", y2=y2, class_=kind)


def _labels(lane: _DrawnBranch, start: float, end: float, y: int) -> list[Element]:
    first, *others = [text for text in lane.texts if text]
    above = y - 14 - _LINE * len(others)
    x = f"{start:.1f}%"
    return [
        element("circle", cx=f"{end:.1f}%", cy=y, r=6, class_=lane.kind),
        element("text", first, x=x, dx=_GAP, y=above, class_="name"),
        *(element("text", text, x=x, dx=_GAP, y=above + _LINE * line) for line, text in enumerate(others, 1)),
    ]
