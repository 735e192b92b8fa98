"""When a master posts: at once on news, back to back while there is some, seldom when idle."""

from __future__ import annotations

from math import inf

from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import (
    AgreementLimits,
    LocalStatus,
    Now,
    PostingPace,
    PostReceived,
    RecoveredState,
    Submitted,
    Tick,
)
from quadlog.core.model import Ask, Post, Transaction

PACE = PostingPace(window=8, settle=25, idle=1000)


def make(
    name: str, *, limits: AgreementLimits | None = None, view: tuple[str, ...] = ("m1", "m2")
) -> Agreement:
    return Agreement(
        node=name,
        incarnation=bytes(16),
        masters={name: name for name in view},
        durable=RecoveredState(),
        logged={},
        settings=ClusterSettings(max_peer_lag=inf),
        pace=PACE,
        limits=limits or AgreementLimits(),
    )


def post_at(master: Agreement, at: float) -> Post | None:
    master.step(Tick(), Now(at, round(at)))
    ready = master.ready()
    return ready.post if ready else None


def transaction(number: int) -> Transaction:
    return Transaction(id=bytes([number]) * 16, digest=bytes([number]) * 32)


def test_an_idle_master_posts_once_a_pause() -> None:
    master = make("m1")
    posts = [at for at in range(5001) if post_at(master, at)]
    assert posts == [0, 1000, 2000, 3000, 4000, 5000]


def test_news_is_posted_at_once_and_the_next_after_the_window() -> None:
    master = make("m1")
    assert post_at(master, 0)
    master.step(Submitted(transaction=transaction(1)), Now(500, 500))
    assert master.wake_at <= 500
    assert post_at(master, 500)
    master.step(Submitted(transaction=transaction(2)), Now(501, 501))
    assert [at for at in range(501, 600) if post_at(master, at)] == [508]


def test_whom_a_master_does_not_hear_it_says_once_and_at_once() -> None:
    master = make("m1")
    assert post_at(master, 0)
    said: list[tuple[int, tuple[str, ...]]] = []
    for at in range(1, 900):
        master.step(LocalStatus(unheard=("dc2",) if at >= 100 else ()), Now(at, at))
        if post := post_at(master, at):
            said.append((at, post.unheard))
    assert said == [(100, ("dc2",))]


def test_one_post_answers_however_much_came_in() -> None:
    master = make("m1")
    assert post_at(master, 0)
    for number in range(50):
        master.step(Submitted(transaction=transaction(number)), Now(100, 100))
    post = post_at(master, 100)
    assert post is not None
    assert len(post.queue) == 50
    assert post_at(master, 101) is None


def test_what_does_not_fit_a_post_follows_in_the_next_ones() -> None:
    master = make("m1", limits=AgreementLimits(post=20))
    assert post_at(master, 0)
    for number in range(50):
        master.step(Submitted(transaction=transaction(number)), Now(100, 100))
    posts = {at: post for at in range(100, 1000) if (post := post_at(master, at))}
    assert [(at, len(post.queue)) for at, post in posts.items()] == [(100, 20), (108, 20), (116, 10)]
    first, second, third = posts.values()
    assert first.counter == second.queue[0].timestamp - 1
    assert second.counter == third.queue[0].timestamp - 1
    assert third.counter == master.counter


def test_what_becomes_free_at_once_is_added_in_turns_with_no_pause_between() -> None:
    master = make("m1", limits=AgreementLimits(turn=20), view=("m1",))
    for number in range(50):
        master.step(Submitted(transaction=transaction(number)), Now(100, 100))
    turns = []
    while master.wake_at <= 100:
        master.step(Tick(), Now(100, 100))
        ready = master.ready()
        assert ready is not None
        turns.append((len(ready.entries), ready.post is not None))
    assert turns == [(20, True), (20, False), (10, False)]


def test_a_snapshot_is_repeated_now_and_then_and_a_long_queue_seldom() -> None:
    master = make("m1", limits=AgreementLimits(snapshot_every=3))
    for number in range(10):
        master.step(Submitted(transaction=transaction(number)), Now(0, 0))
    posts = [post for at in range(0, 70_000, 1000) if (post := post_at(master, at))]
    snapshots = [at for at, post in enumerate(posts) if post.base_sequence is None]
    # Ten pairs wait: forty posts and pairs between, ten of them the pairs of the snapshot itself.
    assert snapshots == [0, 30, 60]
    assert all(len(posts[at].queue) == 10 for at in snapshots)


def test_a_snapshot_is_not_begun_again_before_its_end() -> None:
    """An id may have many pairs, and a vote lists all of them."""
    master = make("m1", limits=AgreementLimits(post=3, snapshot_every=3))
    for number in range(60):
        given = Transaction(id=bytes([number % 12]) * 16, digest=bytes([number]) * 32)
        master.step(Submitted(transaction=given), Now(0, 0))
    posts = [post for at in range(0, 50 * 8, 8) if (post := post_at(master, at))]
    assert [post.base_sequence is None for post in posts] == [True] + [False] * 19
    assert [post.whole for post in posts] == [False] * 19 + [True]


def test_who_asks_is_told_at_once_and_only_once() -> None:
    master, other = make("m1"), make("m2")
    first = post_at(master, 0)
    for at in (1000, 2000):
        post = post_at(master, at)
        assert post is not None
        other.step(PostReceived(post=post), Now(at, at))
    asks = post_at(other, 2000)
    assert first is not None
    assert asks is not None
    assert asks.asks == (Ask("m1", first.sequence + 2),)
    master.step(PostReceived(post=asks), Now(2001, 2001))
    snapshot = post_at(master, 2008)
    assert snapshot is not None
    assert snapshot.base_sequence is None
    # It asks again before it has heard that: the answer is on its way.
    again = post_at(other, 3000)
    assert again is not None
    master.step(PostReceived(post=again), Now(3001, 3001))
    after = post_at(master, 3008)
    assert after is not None
    assert after.base_sequence == snapshot.sequence


def test_a_new_merge_base_alone_waits_for_company_and_then_rounds_are_empty() -> None:
    one, other = make("m1"), make("m2")
    for master, reader in ((one, other), (other, one)):
        post = post_at(master, 0)
        assert post is not None
        reader.step(PostReceived(post=post), Now(0, 0))
    for wall, master in enumerate((one, other)):
        master.step(Submitted(transaction=transaction(1)), Now(100, 100 + wall))
    posts = [post_at(master, 100) for master in (one, other)]
    for post, reader in zip(posts, (other, one), strict=True):
        assert post is not None
        reader.step(PostReceived(post=post), Now(101, 101))
    # Two timestamps of one id: the first is posted by both in the next round, and agreed.
    posts = [post_at(master, 108) for master in (one, other)]
    for post, reader in zip(posts, (other, one), strict=True):
        assert post is not None
        reader.step(PostReceived(post=post), Now(109, 109))
    assert one.last == other.last
    assert one.last.index == 1
    assert [at for at in range(109, 1200) if post_at(one, at)] == [108 + 25, 108 + 25 + 1000]


def test_the_wall_clock_may_jump_back_and_timestamps_do_not() -> None:
    master = make("m1")
    master.step(Submitted(transaction=transaction(1)), Now(0, 10_000_000))
    before = master.counter
    master.step(Submitted(transaction=transaction(2)), Now(10, 0))
    assert master.counter > before
    assert post_at(master, 10)
    assert post_at(master, 1010) is not None, "pauses are measured on the steady clock"
