"""Previews and reports of splits on a real broker and a real Spark, with hand-written plans."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from quadlog.core.approval import REASON as DROPPED
from quadlog.core.approval import Approval
from quadlog.core.model import TransactionKind
from quadlog.errors import SetupError, StateError, Unavailable, UserError
from quadlog.replay.replay import GONE, THERE
from quadlog.splits.changes import net_change
from quadlog.splits.job import exported, listed, shown_branch
from quadlog.topics import Topics
from quadlog.worker.evaluate.limits import EvaluationLimits
from tests.support import plain_splits
from tests.support.brokers import delete_before
from tests.support.plain_splits import read_topics
from tests.support.split_jobs import made, options
from tests.support.split_logs import AGAIN, MAJORITY, MINORITY, SideLog, SplitTopics, quad

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FORK = 3


@pytest.fixture
def topics(kafka: str) -> Iterator[SplitTopics]:
    made = SplitTopics(kafka)
    yield made
    made.close()


def beginning() -> SideLog:
    """Three updates, before the split."""
    log = SideLog()
    log.agree('INSERT DATA { <urn:d> <urn:p> "1" }', inserted=[quad("urn:d")])
    log.agree('INSERT DATA { <urn:x> <urn:p> "1" }', inserted=[quad("urn:x")])
    log.agree('INSERT DATA { <urn:k> <urn:p> "1" }', inserted=[quad("urn:k")])
    return log


SAME = 'INSERT DATA { <urn:same> <urn:p> "1" }'


def one_of_each() -> tuple[SideLog, SideLog]:
    """The winner, and a branch with an update of each class."""
    base = beginning()
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree('DELETE DATA { <urn:d> <urn:p> "1" }', deleted=[quad("urn:d")])
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    ours.agree(
        'DELETE DATA { <urn:x> <urn:p> "1" } ; INSERT DATA { <urn:x> <urn:p> "2" }',
        deleted=[quad("urn:x")],
        inserted=[quad("urn:x", 2)],
    )
    ours.agree(SAME, inserted=[quad("urn:same")])
    theirs.agree('INSERT DATA { <urn:d> <urn:p> "1" } # again')
    theirs.agree('INSERT DATA { <urn:w> <urn:p> "1" } # too', inserted=[quad("urn:w")])
    theirs.agree(COPY, inserted=[quad("urn:n", 1, "urn:q")])
    theirs.agree(SAME, inserted=[quad("urn:same")])
    theirs.agree('INSERT DATA { <urn:b> <urn:p> "1" }', inserted=[quad("urn:b")])
    theirs.agree(
        "",
        kind=TransactionKind.CONFIG,
        options={"setting": "max-peer-lag", "setting-value": "5", "setting-by": "me", "setting-at": "1"},
    )
    theirs.agree("LOAD <http://127.0.0.1:9/x>", reason="LOAD <http://127.0.0.1:9/x>: not allowed")
    theirs.agree("INSERT DATA { ", reason="a syntax error")
    return ours, theirs


COPY = "INSERT { <urn:n> <urn:q> ?o } WHERE { <urn:x> <urn:p> ?o }"


def state_after(log: SideLog) -> set[str]:
    """The lines that its effects leave."""
    lines = set[str]()
    for effect in log.effects:
        lines = (lines - {*effect.deleted}) | {*effect.inserted}
    return lines


def plan_of(topics: SplitTopics, ours: SideLog, theirs: SideLog) -> str:
    """The hash of the plan of `one_of_each`, written by hand."""
    ids = [entry.id.hex() for entry in theirs.entries]
    head = (
        f'{{"branches":[{{"chain":"{theirs.last.chain.hex()}","fork":3,"index":11}}],"format":1,'
        f'"repository":"{topics.repository}","winner":{{"chain":"{ours.last.chain.hex()}","index":7}}}}'
    )

    def row(index: int, kind: str, inserted: int, outcome: str) -> str:
        return (
            f'{{"class":"{kind}","deleted":0,"id":"{ids[index - 1]}","index":{index},"inserted":{inserted},'
            f'"outcome":{outcome}}}'
        )

    lines = [
        head,
        row(4, "opposite", 1, '"APPLIED"'),
        row(5, "empty", 0, '"APPLIED"'),
        row(6, "differs", 1, '"APPLIED"'),
        row(7, "duplicate", 0, "null"),
        row(8, "commutes", 1, '"APPLIED"'),
        row(10, "unforeseen", 0, "null"),
        row(11, "rejected", 0, '"REJECTED"'),
        f'{{"ended":"CONFIG","id":"{ids[8]}","index":9}}',
        r'{"base":true,"branch":true,"line":"<urn:d> <urn:p> \"1\" .","result":true,"winner":false}',
    ]
    return blake2b("".join(f"{line}\n" for line in lines).encode(), digest_size=32).hexdigest()


def test_a_preview_has_each_class_and_the_plan_that_is_written_by_hand(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    ours, theirs = one_of_each()
    topics.apart(ours, theirs)
    report = made(spark, topics, tmp_path / "p")
    [branch] = report["branches"]
    assert report["plan"] == plan_of(topics, ours, theirs)
    assert branch["classes"] == {
        "commutes": 1,
        "differs": 1,
        "duplicate": 1,
        "empty": 1,
        "opposite": 1,
        "rejected": 1,
        "unforeseen": 1,
    }
    assert branch["answers"]["REJECTED"] == {"rejected": 1, "unforeseen": 1}
    assert branch["ended"] == [
        {"index": 9, "id": theirs.entries[8].id.hex(), "what": "setting max-peer-lag = 5"}
    ]
    [duplicate] = [one for one in branch["transactions"] if one["class"] == "duplicate"]
    assert duplicate["became"] == 7
    [disputed] = branch["disputed_quads"]
    assert (disputed["winner_index"], disputed["branch_index"]) == (4, 4)
    assert [side["dcs"] for side in report["sides"]] == [["dc1", "dc2"], ["dc3"]]
    assert [(one["worker"], one["back"], one["forward"]) for one in report["workers"]] == [("dc3-w1", 8, 10)]


def test_a_report_of_what_was_foreseen_has_the_hash_of_the_preview(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    ours, theirs = one_of_each()
    del theirs.entries[9:], theirs.effects[9:]
    topics.apart(ours, theirs)
    preview = made(spark, topics, tmp_path / "p")
    then = ours.fork(AGAIN)
    branch = theirs.entries[FORK:]
    then.agree_again(branch[0], inserted=[quad("urn:d")])
    then.agree_again(branch[1])
    then.agree_again(branch[2], inserted=[quad("urn:n", 2, "urn:q")])
    then.agree_again(branch[4], inserted=[quad("urn:b")])
    topics.together(FORK, ours, then)
    report = made(spark, topics, tmp_path / "r", is_over=True)
    assert report["plan"] == preview["plan"]
    found = [(one["class"], one["became"]) for one in report["branches"][0]["transactions"]]
    assert found == [("opposite", 8), ("empty", 9), ("differs", 10), ("duplicate", 7), ("commutes", 11)]
    assert report["branches"][0]["name"] == preview["branches"][0]["name"] == f"3-{MINORITY.id.hex()[:12]}"
    wanted, name = options(topics, tmp_path), report["branches"][0]["name"]
    [one] = listed(wanted, spark, lambda _: nullcontext())
    assert (one["name"], one["dcs"], one["is_over"], one["entries"]) == (name, ["dc3"], True, len(branch))
    assert (one["masters"], one["bytes"] > 0) == (["dc3-m1"], True)
    (tmp_path / "state").mkdir()
    branch_state = shown_branch(wanted, spark, lambda _: nullcontext(), name, tmp_path / "state")
    assert {*branch_state.lines()} == state_after(theirs)
    patch = tmp_path / "branch.rdfp"
    assert exported(wanted, spark, lambda _: nullcontext(), name, patch) == 4
    added = [quad("urn:b"), quad("urn:n", 1, "urn:q"), quad("urn:same"), quad("urn:w")]
    assert patch.read_text().splitlines() == [
        f'H branch "{name}" .',
        "TX .",
        *(f"A {one}" for one in added),
        "TC .",
    ]
    with pytest.raises(UserError, match=f"there is no branch x; there are {name}"):
        exported(wanted, spark, lambda _: nullcontext(), "x", tmp_path / "x")
    assert not [*tmp_path.glob("x*")]
    now = made(spark, topics, tmp_path / "n")
    assert (now["branches"], now["reasons"], len(now["sides"])) == ([], [], 1)
    with pytest.raises(UserError, match="there is no branch 9-x; there are 3-"):
        made(spark, topics, tmp_path / "b", is_over=True, branch="9-x")


def test_a_branch_whose_effects_claim_another_state_is_not_shown(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    ours, theirs = one_of_each()
    theirs.effects[-1] = replace(theirs.effects[-1], signature_after=bytes(32))
    topics.apart(ours, theirs)
    wanted, name = options(topics, tmp_path), f"3-{MINORITY.id.hex()[:12]}"
    with pytest.raises(StateError, match="do not lead to the state that effect 11 claims"):
        shown_branch(wanted, spark, lambda _: nullcontext(), name, tmp_path)


def test_an_approval_is_not_in_the_plan_but_what_it_drops_is(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    """It is the last entry of each side, and evaluated there."""
    base = beginning()
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    before = theirs.agree('INSERT DATA { <urn:a> <urn:p> "1" }', inserted=[quad("urn:a")])
    gone = theirs.agree('DELETE DATA { <urn:x> <urn:p> "1" }', deleted=[quad("urn:x")])
    copied = theirs.agree(COPY)  # of what that has deleted
    topics.apart(ours, theirs)
    preview = made(spark, topics, tmp_path / "p", drop=frozenset({gone.id.hex()}))
    classes = {"commutes": 1, "differs": 1, "dropped": 1}
    assert preview["branches"][0]["classes"] == classes
    with pytest.raises(UserError, match="are of a branch that gives way"):
        made(spark, topics, tmp_path / "x", drop=frozenset({gone.id.hex(), "00" * 16}))
    for side, dcs in ((ours, ("dc1", "dc2")), (theirs, ("dc3",))):
        approval = Approval(bytes.fromhex(preview["plan"]), side.last, frozenset({gone.id}))
        side.agree(f"approved by {dcs}", kind=TransactionKind.CONFIG, options=approval.options)
        for dc in dcs:
            topics.write(dc, side.entries[-1:], side.effects[-1:])
    then = ours.fork(AGAIN)
    then.agree_again(before, inserted=[quad("urn:a")])
    then.agree(gone.body.decode(), reason=DROPPED)
    then.agree_again(copied, inserted=[quad("urn:n", 1, "urn:q")])
    topics.together(FORK, ours, then)
    report = made(spark, topics, tmp_path / "r", is_over=True)
    [branch] = report["branches"]
    assert (branch["classes"], branch["ended"]) == (classes, [])
    assert (report["plan"], branch["name"]) == (preview["plan"], preview["branches"][0]["name"])


def test_what_happened_otherwise_has_another_hash(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    """An update does not come back, another one finds something else."""
    base = beginning()
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    theirs.agree(COPY, inserted=[quad("urn:n", 1, "urn:q")])
    theirs.agree('INSERT DATA { <urn:b> <urn:p> "1" }', inserted=[quad("urn:b")])
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    topics.apart(ours, theirs)
    preview = plain_splits.preview(topics.repository, read_topics(topics.repository, topics.kafkas))
    assert [one.update_class for one in preview.branches[0].updates] == [
        plain_splits.UpdateClass.COMMUTES
    ] * 2
    then = ours.fork(AGAIN)
    then.agree("a late update of the winner", deleted=[quad("urn:x")], inserted=[quad("urn:x", 3)])
    then.agree_again(theirs.entries[FORK], inserted=[quad("urn:n", 3, "urn:q")])
    topics.together(FORK, ours, then)
    report = made(spark, topics, tmp_path / "r", is_over=True)
    assert report["branches"][0]["classes"] == {"differs": 1, "waits": 1}
    assert report["plan"] != preview.hash


def test_of_three_branches_the_second_follows_the_first(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    """dc2 and dc3 are each alone; both change the quad that dc1 removed."""
    base = beginning()
    ours = base.fork(MAJORITY)
    ours.agree('DELETE DATA { <urn:d> <urn:p> "1" }', deleted=[quad("urn:d")])
    second, third = base.fork(MINORITY), base.fork(MINORITY)
    second.agree('INSERT DATA { <urn:d> <urn:p> "1" } # two')
    third.agree('INSERT DATA { <urn:d> <urn:p> "1" } # three')
    third.agree('DELETE DATA { <urn:k> <urn:p> "1" }', deleted=[quad("urn:k")])
    for side in (second, third):
        side.agree(SAME, inserted=[quad("urn:same")])
    topics.write("dc1", ours.entries, ours.effects)
    topics.post("dc1", MAJORITY, ours.last, epoch=2)
    topics.write("dc2", second.entries, second.effects)
    topics.write("dc3", third.entries, third.effects)
    topics.post("dc3", MINORITY, third.last, epoch=1)
    topics.pass_on("dc1", "dc2", MAJORITY, ours.last, epoch=2)
    report = made(spark, topics, tmp_path / "p")
    assert [side["dcs"] for side in report["sides"]] == [["dc1"], ["dc3"], ["dc2"]]
    assert [branch["classes"] for branch in report["branches"]] == [
        {"commutes": 2, "opposite": 1},
        # The branch before has brought the quad back.
        {"commutes": 1, "duplicate": 1},
    ]
    assert [branch["disputed"] for branch in report["branches"]] == [1, 0]


def test_who_is_behind_and_who_is_not_reached_is_named(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    ours, _theirs = one_of_each()
    topics.write("dc1", ours.entries, ours.effects)
    topics.write("dc2", ours.entries[:5], ours.effects[:5])
    topics.post("dc1", MAJORITY, ours.last, epoch=2)
    kafkas = {**topics.kafkas, "dc3": "127.0.0.1:9"}
    report = made(spark, topics, tmp_path / "p", kafkas=kafkas)
    assert report["behind"] == [{"dc": "dc2", "index": 5, "entries": 2}]
    [one] = report["unreachable"]
    assert one["dc"] == "dc3"
    assert "whether dc3 has entries of its own" in one["unknown"]
    with pytest.raises(Unavailable, match="no data centre is reached"):
        made(spark, topics, tmp_path / "q", kafkas={"dc3": "127.0.0.1:9"})
    with pytest.raises(SetupError, match="no topic"):
        made(spark, topics, tmp_path / "s", repository="nothing")
    with pytest.raises(UserError, match="no split that is over"):
        made(spark, topics, tmp_path / "t", kafkas={"dc1": topics.kafka}, is_over=True)


def test_a_preview_waits_for_the_effects_of_the_winner(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    """It takes those of any data centre of that side."""
    base = beginning()
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    theirs.agree('DELETE DATA { <urn:k> <urn:p> "1" }', deleted=[quad("urn:k")])
    newest = ours.effects.pop()
    topics.apart(ours, theirs)
    with pytest.raises(Unavailable, match="does not have the effect of entry 4 yet"):
        made(spark, topics, tmp_path / "p")
    topics.write("dc2", [], [newest])
    report = made(spark, topics, tmp_path / "q")
    assert report["branches"][0]["classes"] == {"commutes": 1}
    assert report["strategy"] == "Quorum"
    [one] = listed(options(topics, tmp_path), spark, lambda _: nullcontext())
    assert (one["name"], one["is_over"]) == (report["branches"][0]["name"], False)
    delete_before(topics.kafka, Topics(topics.repository, "dc3").effects, 2)
    with pytest.raises(StateError, match="give the directory of `quadlog archive` with --archive"):
        made(spark, topics, tmp_path / "r")
    [one] = listed(options(topics, tmp_path), spark, lambda _: nullcontext())
    assert one["entries"] == 1


def test_an_update_that_never_ends_is_rejected_as_a_worker_would(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    """Those behind it are evaluated on the state that those before it have left.  Details are cut, totals are not."""
    base = beginning()
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree("a step of the winner", inserted=[quad(f"urn:f{number}") for number in range(100)])
    pattern = " ".join(f"?a{number} ?b{number} ?c{number} ." for number in range(9))
    theirs.agree('INSERT DATA { <urn:b> <urn:p> "1" }', inserted=[quad("urn:b")])
    theirs.agree(f"INSERT {{ <urn:e> <urn:p> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ {pattern} }} }}")
    theirs.agree(
        "INSERT { <urn:c> <urn:q> ?o } WHERE { <urn:b> <urn:p> ?o }", inserted=[quad("urn:c", 1, "urn:q")]
    )
    topics.apart(ours, theirs)
    limits = EvaluationLimits(seconds=2, memory=1 << 30)
    [branch] = made(spark, topics, tmp_path / "p", limits=limits, details=1)["branches"]
    found = branch["transactions"]
    assert [(one["index"], one["class"]) for one in found] == [(4, "commutes"), (5, "rejected")]
    assert "update-timeout" in found[1]["reason"]
    assert branch["classes"] == {"commutes": 2, "rejected": 1}
    assert branch["shown"] == {"commutes": 1, "rejected": 1}


def test_a_net_change_has_only_what_differs_in_the_end(spark: SparkSession) -> None:
    moments = [
        ("comes", 4 * 5 + THERE),
        ("goes", 4 * 5 + GONE),
        ("comes and goes", 4 * 5 + THERE),
        ("comes and goes", 4 * 6 + GONE),
        ("goes and comes", 4 * 5 + GONE),
        ("goes and comes", 4 * 7 + THERE),
        ("# empty graph <urn:g>", 4 * 5 + THERE),
    ]
    text = ", ".join(f"('{line}', {moment}L)" for line, moment in moments)
    rows = net_change(spark.sql(f"select * from values {text} as changes(line, moment)")).collect()
    assert [(row["line"], row["there"]) for row in rows] == [("goes", False), ("comes", True)]
