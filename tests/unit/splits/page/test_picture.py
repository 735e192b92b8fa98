"""The picture: one line for each side and branch, and notes on other data centres."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.splits.page.picture import picture
from tests.support.split_reports import branch, position, report, side, update

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def texts(drawn: Element) -> list[str]:
    return [one.text or "" for one in drawn.iter("text")]


def ends(drawn: Element, kind: str) -> list[float]:
    """Return where the lines of a kind end, from left to right, in percent."""
    lines = [one for one in drawn.iter("line") if one.get("class") == kind and one.get("y1") == one.get("y2")]
    return sorted(float((one.get("x2") or "").rstrip("%")) for one in lines)


def test_each_side_has_its_figures() -> None:
    drawn = picture(report(branch(update(211, "commutes"))))
    assert texts(drawn) == [
        "dc3", "20 entries after 210", "29 Nov 14:03:12 to 14:31:09 UTC", f"branch 210-{230:012x}",
        "dc1, dc2", "40 entries after 210", "29 Nov 14:03:12 to 14:31:09 UTC", "wins",
    ]  # fmt: skip


def test_lengths_are_in_proportion_and_short_ones_are_seen() -> None:
    [half] = ends(picture(report(branch())), "loses")
    [whole] = ends(picture(report(branch())), "wins")
    [short] = ends(picture(report(branch(entries=0))), "loses")
    fork = 7.0
    assert abs((whole - fork) / (half - fork) - 2) < 0.01
    assert short > fork + 1


def test_later_forks_are_above_and_to_the_right() -> None:
    earlier = branch(name="100-a", fork=position(100), last=position(101), dcs=["dc4"])
    sides = [
        side("dc1", wins=True, last=position(250), length=40, rank=None),
        side("dc4", fork=100, last=earlier["last"], length=20, rank=None),
        side("dc3", last=position(230), length=20, rank=None),
    ]
    drawn = picture(report(earlier, branch(), sides=sides))
    names = [one for one in drawn.iter("text") if one.get("class") == "name"]
    where = {one.text: (float((one.get("x") or "").rstrip("%")), int(one.get("y") or "")) for one in names}
    assert where["dc4"][0] < where["dc3"][0]
    assert where["dc4"][1] > where["dc3"][1] > where["dc1"][1]
    assert len([one for one in drawn.iter("circle") if one.get("class") == "fork"]) == 2


def test_a_side_without_a_branch_is_drawn() -> None:
    sides = [
        side("dc1", wins=True, last=position(250), length=40, rank=None),
        side("dc9", last=position(9), length=0, rank=None, fork=None),
    ]
    assert "dc9" in texts(picture(report(sides=sides)))


def test_data_centres_that_are_behind_or_away_are_noted() -> None:
    drawn = picture(
        report(
            branch(),
            behind=[{"dc": "dc5", "index": 200, "entries": 1234}],
            unreachable=[{"dc": "dc6", "reason": "silent", "unknown": ""}],
        )
    )
    assert texts(drawn)[-2:] == ["dc5: behind by 1,234", "dc6: not reached"]
    assert len(ends(drawn, "behind")) == len(ends(drawn, "away")) == 1


def test_long_names_fit_a_telephone() -> None:
    names = [f"data-centre-with-a-long-name-{number}" for number in range(5)]
    drawn = picture(report(branch(dcs=["x" * 100]), branch(dcs=names, name="y" * 100)))
    assert max(map(len, texts(drawn))) <= 34
