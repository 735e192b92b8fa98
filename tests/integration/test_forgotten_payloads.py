"""An older copy of a master, of its disk and its topics alike, hears of an entry whose payload it had promised."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import (
    AgreementLimits,
    ForgottenPayloadError,
    Now,
    PostingPace,
    PostReceived,
    RecoveredState,
    Submitted,
    Tick,
)
from quadlog.core.model import Post, Transaction
from quadlog.master.clients.admission import Admission
from quadlog.master.recovery.superseded import marked
from quadlog.masterstore.store import MasterStore
from tests.support.masters.lone_node import lone_node
from tests.support.masters.outlets import Broker

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("m1", "m2")


def make(name: str) -> Agreement:
    return Agreement(
        node=name,
        incarnation=bytes(16),
        masters={one: one for one in NAMES},
        durable=RecoveredState(),
        logged={},
        settings=ClusterSettings(max_peer_lag=inf),
        pace=PostingPace(window=0),
        limits=AgreementLimits(),
    )


def said(master: Agreement, at: float) -> Post | None:
    master.step(Tick(), Now(at, round(at)))
    ready = master.ready()
    return ready.post if ready else None


def what_m2_added() -> Post:
    """Both had the payload; m2 says that it is agreed."""
    m1, m2 = make("m1"), make("m2")
    for one in (m1, m2):
        one.step(Submitted(transaction=Transaction(id=bytes([1]) * 16, digest=bytes(32))), Now(0, 0))
    for at in range(1, 100):
        if post := said(m1, at):
            m2.step(PostReceived(post=post), Now(at, at))
        if post := said(m2, at):
            if post.added:
                return post
            m1.step(PostReceived(post=post), Now(at, at))
    pytest.fail("nothing was agreed")


def test_it_is_an_error_of_its_own() -> None:
    with pytest.raises(
        ForgottenPayloadError, match="m1: m2 says what was agreed, and its payload is not here"
    ):
        make("m1").step(PostReceived(post=what_m2_added()), Now(100, 100))


def test_the_next_start_begins_anew(tmp_path: Path) -> None:
    store, failures = MasterStore(tmp_path / "rocksdb"), list[str]()
    node = lone_node(
        make("m1"),
        store,
        Broker(),
        Admission(max_waiting=1, in_flight=1),
        failed=failures.append,
        data_dir=tmp_path,
    )
    node.agreement.step(Tick(), Now(0, 0))
    heard = PostReceived(post=what_m2_added())
    step = node.agreement.step

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(node.agreement, "step", lambda _, now: step(heard, now))
        node._run()
    store.close()
    assert [
        "Start this master again: it comes back as one without its disk" in told for told in failures
    ] == [True]
    assert (marked(tmp_path) or b"") > store.incarnation
