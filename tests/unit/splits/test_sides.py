"""Which data centres are a side, which one wins, and why."""

from __future__ import annotations

from dataclasses import replace

from quadlog.core.model import START, LogPosition, Post, Rank, View
from quadlog.splits.sides import Side, reasons_of, sides_of

A, B, SHARED = (LogPosition(index, bytes([index]) * 32) for index in (9, 7, 4))


def post(node: str, rank: Rank) -> Post:
    return Post(
        node=node,
        incarnation=bytes(16),
        sequence=1,
        view=View(epoch=rank.epoch, members=rank.ids),
        base=START,
        counter=0,
        queue=(),
        rank=rank,
    )


def rank(epoch: int, *ids: str, decided: bool = True) -> Rank:
    return Rank(epoch, decided, len(ids), ids)


MANY, FEW = rank(2, "m1", "m2"), rank(1, "m3")


def on(positions: dict[str, set[LogPosition]]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    return lambda dc, position: position in positions[dc]


def test_data_centres_with_one_last_entry_are_a_side() -> None:
    lasts = {"dc1": A, "dc2": A, "dc3": B}
    has = on({"dc1": {SHARED, A}, "dc2": {SHARED, A}, "dc3": {SHARED, B}})
    sides, behind = sides_of(lasts, {"dc1": [post("m1", MANY)], "dc3": [post("m3", FEW)]}, has)
    assert [side.dcs for side in sides] == [["dc1", "dc2"], ["dc3"]]
    assert behind == []


def test_the_greater_rank_wins_also_with_the_shorter_log() -> None:
    has = on({"dc1": {SHARED, A}, "dc3": {SHARED, B}})
    posts = {"dc1": [post("m1", FEW)], "dc3": [post("m2", MANY), post("m3", FEW)]}
    sides, _ = sides_of({"dc1": A, "dc3": B}, posts, has)
    assert [side.dcs for side in sides] == [["dc3"], ["dc1"]]
    assert sides[0].masters == ("m1", "m2")


def test_who_is_only_behind_is_no_side() -> None:
    has = on({"dc1": {SHARED, A}, "dc2": {SHARED}, "dc3": {SHARED, B}})
    sides, behind = sides_of({"dc1": A, "dc2": SHARED, "dc3": B}, {}, has)
    assert sorted(side.dcs for side in sides) == [["dc1"], ["dc3"]]
    assert [(one.dc, one.index, one.entries) for one in behind] == [("dc2", 4, 5)]


def test_a_side_without_entries_of_its_own_may_win() -> None:
    """The majority has written nothing since the fork: the others' entries are behind its last one."""
    has = on({"dc1": {SHARED}, "dc3": {SHARED, A}})
    posts = {"dc1": [post("m1", MANY)], "dc3": [post("m3", FEW)]}
    sides, behind = sides_of({"dc1": SHARED, "dc3": A}, posts, has)
    assert [side.dcs for side in sides] == [["dc1"], ["dc3"]]
    assert behind == []


def test_the_last_post_of_a_master_that_is_down_counts_only_in_its_view() -> None:
    """Before the split, its view had three members; the side of the other one has two."""
    before = replace(post("m4", rank(1, "m1", "m2", "m3")), view=View(epoch=1, members=("m1",)))
    now = replace(post("m3", FEW), view=View(epoch=2, members=("m3",)))
    side = Side(dcs=["dc3"], last=B, posts=[before, now])
    assert side.rank == FEW
    assert side.masters == ("m3",)


def test_a_side_without_posts_or_entries_comes_last() -> None:
    has = on({"dc1": {A}, "dc2": {B}, "dc3": set()})
    sides, _ = sides_of(
        {"dc1": A, "dc2": B, "dc3": START}, {"dc2": [post("m2", FEW)], "dc3": [post("m3", MANY)]}, has
    )
    assert sides[0].dcs == ["dc2"]
    assert sides[-1].rank is None


def test_the_reason_names_what_decides() -> None:
    winner = Side(dcs=["dc1"], last=A, posts=[post("m1", MANY)])

    def reason(other: Rank | None) -> str:
        posts = [] if other is None else [post("m3", other)]
        [said] = reasons_of(winner, [Side(dcs=["dc3"], last=B, posts=posts)])
        return said

    assert "epoch 2, that of dc3 has 1" in reason(FEW)
    assert "2 masters, that of dc3 1" in reason(replace_epoch(FEW, 2))
    assert "a change of the peers is decided only at dc1" in reason(rank(2, "m3", "m4", decided=False))
    assert "m1, m2 comes after a, b" in reason(rank(2, "a", "b"))
    assert "no master whose posts are known" in reason(None)
    [said] = reasons_of(winner, [Side(dcs=["dc3"], last=START, posts=[post("m3", MANY)])])
    assert "no entry" in said


def replace_epoch(of: Rank, epoch: int) -> Rank:
    return of._replace(epoch=epoch)


def test_without_any_rank_nothing_is_claimed() -> None:
    sides = [Side(dcs=["dc1"], last=A), Side(dcs=["dc3"], last=B)]
    [said] = reasons_of(sides[0], sides[1:])
    assert "by its chain hash only" in said
