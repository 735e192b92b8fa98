"""The plain reader of splits, with logs and plans that are written by hand from docs/splits.md.

A quad is written by a letter: a is `<urn:a> <urn:p> <urn:o> .`, and a.g the same in the graph urn:g.
The common log inserts a, b and x.g, and creates the empty graph urn:e.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import pytest

from quadlog.core.effects.lines import ChangeLines
from quadlog.core.model import GENESIS, START, LogPosition, Rank, TransactionKind, View, hash_of
from quadlog.core.records import Cut, Handover, LoggedEntry, Outcome, Rewind, Seed
from tests.support.plain_histories import DataCentreTopics, Unknown
from tests.support.plain_splits import PlannedBranch, branch_names, preview, report
from tests.support.whole_log import FENCE, History, post, records_of

if TYPE_CHECKING:
    from quadlog.core.model import Post
    from quadlog.ports import Record

TOGETHER = View(epoch=1, members=("m1", "m2", "m3"))
MAJORITY = View(epoch=2, members=("m1", "m2"))
ALONE = View(epoch=3, members=("m3",))
AGAIN = View(epoch=4, members=("m1", "m2", "m3"))


def rank(epoch: int, *members: str) -> Rank:
    return Rank(epoch=epoch, decided=True, members=len(members), ids=members)


STRONG, WEAK = rank(2, "m1", "m2"), rank(1, "m3")
WEAKER = rank(1, "m2")


def quad(name: str) -> str:
    """`a`, `a.g` (in a graph), `a=c` (with another object)."""
    start, _, graph = name.partition(".")
    subject, _, value = start.partition("=")
    end = f" <urn:{graph}>" if graph else ""
    return f"<urn:{subject}> <urn:p> <urn:{value or 'o'}>{end} ."


def data(names: str) -> str:
    parts = [(one.partition(".")[2], quad(one.partition(".")[0])) for one in names.split()]
    return " ".join(f"GRAPH <urn:{graph}> {{ {line} }}" if graph else line for graph, line in parts)


def put(names: str) -> str:
    return f"INSERT DATA {{ {data(names)} }}"


def drop(names: str) -> str:
    return f"DELETE DATA {{ {data(names)} }}"


def lines(text: str) -> ChangeLines:
    """`+a -b`: quads; `empty:g`, `full:g`, `gone:g`: graphs that become empty, are not empty any more, are dropped."""
    words = text.split()
    graphs = [word.split(":") for word in words if ":" in word]
    return ChangeLines(
        deleted=tuple(quad(word[1:]) for word in words if word[0] == "-"),
        inserted=tuple(quad(word[1:]) for word in words if word[0] == "+"),
        emptied=tuple(f"<urn:{graph}>" for verb, graph in graphs if verb == "empty"),
        filled=tuple(f"<urn:{graph}>" for verb, graph in graphs if verb == "full"),
        dropped=tuple(f"<urn:{graph}>" for verb, graph in graphs if verb == "gone"),
    )


def common() -> History:
    history = History()
    history.add(put("a b"), lines("+a +b"))
    history.add(put("x.g"), lines("+x.g"))
    history.add("CREATE GRAPH <urn:e>", lines("empty:e"))
    return history


FORK = 3


def topics(history: History, *posts: Post) -> DataCentreTopics:
    """The topics of a data centre that was never cut."""
    return DataCentreTopics(
        agreed=records_of(*history.entries),
        effects=records_of(FENCE, *history.effects, epoch=1),
        rounds=records_of(*posts),
    )


def split(winner: History, branch: History) -> dict[str, DataCentreTopics]:
    return {
        "dc1": topics(winner, post("m1", STRONG, view=MAJORITY)),
        "dc2": topics(winner, post("m2", STRONG, view=MAJORITY)),
        "dc3": topics(branch, post("m3", WEAK, view=ALONE)),
    }


def classes(branch: PlannedBranch) -> list[tuple[str, str | None, int, int]]:
    return [(one.update_class.value, one.outcome, one.deleted, one.inserted) for one in branch.updates]


def disputed(branch: PlannedBranch) -> dict[str, str]:
    """Base, winner, branch and result of each quad, as `1010`."""
    return {one.line: "".join(str(int(state)) for state in one[1:]) for one in branch.disputed}


class Case(NamedTuple):
    """Updates with their effects on their sides, and what becomes of those of the branch."""

    winner: list[tuple[str, str]]
    branch: list[tuple[str, str]]
    classes: list[tuple[str, str | None, int, int]]
    disputed: dict[str, str] = {}  # noqa: RUF012 - a tuple's default, which nobody changes


SUBJECTS = "INSERT { ?s <urn:p> <urn:new> } WHERE { ?s <urn:p> <urn:o> }"
"""Its effect depends on the state: a=new, b=new, and what else there is."""
MAKE_G, MAKE_H = "CREATE GRAPH <urn:g>", "CREATE GRAPH <urn:h>"

CASES = {
    "commutes": Case([(put("d"), "+d")], [(put("c"), "+c")], [("commutes", "APPLIED", 0, 1)]),
    "changes nothing on either side": Case(
        [(put("d"), "+d")], [(put("a"), "")], [("commutes", "APPLIED", 0, 0)]
    ),
    "an effect with two quads": Case(
        [(put("d"), "+d")], [(f"{drop('a')}; {put('c')}", "-a +c")], [("commutes", "APPLIED", 1, 1)]
    ),
    "empty: the winner has done it": Case(
        [(drop("a"), "-a")],
        [(drop("a") + " # the same", "-a")],
        [("empty", "APPLIED", 0, 0)],
    ),
    "opposite: inserted again": Case(
        [(drop("a"), "-a")],
        [(put("a"), "")],
        [("opposite", "APPLIED", 0, 1)],
        {quad("a"): "1011"},
    ),
    "opposite: deleted": Case(
        [(put("c"), "+c")],
        [(drop("c"), "")],
        [("opposite", "APPLIED", 1, 0)],
        {quad("c"): "0100"},
    ),
    "opposite: the winner has changed it and changed it back": Case(
        [(drop("a"), "-a"), (put("a") + "#", "+a")],
        [(drop("a") + "# there", "-a")],
        [("opposite", "APPLIED", 1, 0)],
        {quad("a"): "1100"},
    ),
    "opposite comes before differs": Case(
        [(drop("a"), "-a"), (put("d"), "+d")],
        [(f"{put('a')}; {SUBJECTS}", "+a=new +b=new")],
        [("opposite", "APPLIED", 0, 4)],
        {quad("a"): "1011"},
    ),
    "to the state of the winner after all": Case(
        [(drop("a"), "-a")],
        [(put("a"), ""), (drop("a") + "#", "-a")],
        [("opposite", "APPLIED", 0, 1), ("commutes", "APPLIED", 1, 0)],
    ),
    "differs: its WHERE finds more": Case(
        [(put("d"), "+d")], [(SUBJECTS, "+a=new +b=new")], [("differs", "APPLIED", 0, 3)]
    ),
    "differs: its WHERE finds less": Case(
        [(drop("a"), "-a")], [(SUBJECTS, "+a=new +b=new")], [("differs", "APPLIED", 0, 1)]
    ),
    "the winner has done a part of it": Case(
        [(put("a=new"), "+a=new")], [(SUBJECTS, "+a=new +b=new")], [("commutes", "APPLIED", 0, 1)]
    ),
    "differs: it was rejected there, by a control": Case(
        [(put("d"), "+d")], [(put("c"), "rejected")], [("differs", "APPLIED", 0, 1)]
    ),
    "rejected": Case([(MAKE_H, "empty:h")], [(MAKE_H + "#", "empty:h")], [("rejected", "REJECTED", 0, 0)]),
    "rejected as a whole": Case(
        [(MAKE_H, "empty:h")],
        [(f"{put('c')}; {MAKE_H}", "+c empty:h"), (put("c"), "")],
        [("rejected", "REJECTED", 0, 0), ("differs", "APPLIED", 0, 1)],
    ),
    "rejected on both sides": Case(
        [(put("d"), "+d")], [(MAKE_G, "rejected")], [("rejected", "REJECTED", 0, 0)]
    ),
    "unforeseen": Case(
        [(put("d"), "+d")],
        [
            ("LOAD <http://example.org/>", "+c"),
            ("INSERT { ?s ?p ?o } WHERE { service <http://example.org/> { ?s ?p ?o } }", "+f"),
            (put("h"), "+h"),
        ],
        [("unforeseen", None, 0, 0), ("unforeseen", None, 0, 0), ("commutes", "APPLIED", 0, 1)],
    ),
    "a line that is there for a while on the branch alone": Case(
        [(put("d"), "+d")],
        [("LOAD <http://example.org/>", "+f"), (f"{drop('f')}; {put('h')}", "-f +h")],
        [("unforeseen", None, 0, 0), ("commutes", "APPLIED", 0, 1)],
    ),
    "words that need no other server": Case(
        [(put("d"), "+d")],
        [
            (
                "PREFIX service: <urn:> INSERT DATA { <urn:load> service:p 'LOAD <urn:x>', service:load } # SERVICE",
                "",
            ),
        ],
        [("differs", "APPLIED", 0, 2)],
    ),
    "duplicate": Case(
        [(put("d"), "+d"), (put("c"), "+c")],
        [(put("c"), "+c"), (put("h"), "+h")],
        [("duplicate", None, 0, 0), ("commutes", "APPLIED", 0, 1)],
    ),
    "a duplicate with a disputed quad": Case(
        [(put("c"), "+c"), (drop("c"), "-c")],
        [(put("f"), "+f"), (put("c"), "+c")],
        [("commutes", "APPLIED", 0, 1), ("duplicate", None, 0, 0)],
        {quad("c"): "0010"},
    ),
    "an empty graph here and there": Case(
        [(put("d"), "+d")], [(MAKE_H, "empty:h")], [("commutes", "APPLIED", 0, 0)]
    ),
    "a graph that was empty, and a new one": Case(
        [(put("d"), "+d")],
        [(put("c.e"), "+c.e full:e"), (put("c.n"), "+c.n")],
        [("commutes", "APPLIED", 0, 1), ("commutes", "APPLIED", 0, 1)],
    ),
    "an empty graph that the winner has made": Case(
        [(MAKE_H, "empty:h")],
        [("CREATE SILENT GRAPH <urn:h>", "empty:h")],
        [("empty", "APPLIED", 0, 0)],
    ),
    "an empty graph that the winner has filled": Case(
        [(put("c.e"), "+c.e full:e")],
        [("DROP GRAPH <urn:e>", "full:e")],
        [("opposite", "APPLIED", 1, 0)],
        {quad("c.e"): "0100"},
    ),
    "an empty graph that the winner has dropped": Case(
        [("DROP GRAPH <urn:e>", "full:e")],
        [("CREATE SILENT GRAPH <urn:e>", "")],
        [("opposite", "APPLIED", 0, 0)],
    ),
    "a graph that is cleared and one that is dropped": Case(
        [("CLEAR GRAPH <urn:g>", "-x.g empty:g")],
        [("DROP GRAPH <urn:g>", "-x.g gone:g")],
        [("opposite", "APPLIED", 0, 0)],
    ),
    "a dropped graph": Case(
        [("DROP GRAPH <urn:g>", "-x.g gone:g")],
        [("CREATE GRAPH <urn:g> # not there", "rejected")],
        [("differs", "APPLIED", 0, 0)],
    ),
    "the winner's line, changed by no update of the branch": Case(
        [(drop("a"), "-a")], [(put("c"), "+c")], [("commutes", "APPLIED", 0, 1)]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_becomes_of_updates(case: Case) -> None:
    winner, branch = common(), common()
    for history, updates in (winner, case.winner), (branch, case.branch):
        for text, effect in updates:
            if effect == "rejected":
                history.add(text, outcome=Outcome.REJECTED)
            else:
                history.add(text, lines(effect))
    [found] = preview("main", split(winner, branch)).branches
    assert classes(found) == case.classes
    assert disputed(found) == case.disputed
    assert [one.index for one in found.updates] == [one.index for one in branch.entries[FORK:]]
    assert [one.id for one in found.updates] == [one.id.hex() for one in branch.entries[FORK:]]


def test_the_canonical_lines_and_their_hash() -> None:
    winner, branch = common(), common()
    last = winner.add(drop("a"), lines("-a"))
    first = branch.add(put("b a"), lines(""))
    second = branch.add("INSERT DATA { <urn:é> <urn:p> 'ö' }", lines(""))
    setting = branch.add("", kind=TransactionKind.CONFIG)
    decision = branch.add("", kind=TransactionKind.EVALUATOR)
    expected = (
        f'{{"branches":[{{"chain":"{decision.chain.hex()}","fork":3,"index":7}}],"format":1,'
        f'"repository":"main","winner":{{"chain":"{last.chain.hex()}","index":4}}}}\n'
        f'{{"class":"opposite","deleted":0,"id":"{first.id.hex()}","index":4,"inserted":1,"outcome":"APPLIED"}}\n'
        f'{{"class":"differs","deleted":0,"id":"{second.id.hex()}","index":5,"inserted":1,"outcome":"APPLIED"}}\n'
        f'{{"ended":"CONFIG","id":"{setting.id.hex()}","index":6}}\n'
        '{"base":true,"branch":true,"line":"<urn:a> <urn:p> <urn:o> .","result":true,"winner":false}\n'
    )
    found = preview("main", split(winner, branch))
    assert "".join(f"{line}\n" for line in found.lines()) == expected
    assert found.hash == blake2b(expected.encode(), digest_size=32).hexdigest()
    assert found.branches[0].name == f"3-{decision.lineage.hex()[:12]}"


def test_lines_of_quads_are_sorted_by_code_points_and_not_escaped() -> None:
    winner, branch = common(), common()
    names = ["z", "é", "Z", "\U00010000", "\uffee"]
    for name in names:
        winner.add(put(name), lines(f"+{name}"))
    branch.add(drop(" ".join(names)), lines(""))
    found = preview("main", split(winner, branch))
    assert [one.line for one in found.branches[0].disputed] == [
        quad(name) for name in ["Z", "z", "é", "\uffee", "\U00010000"]
    ]
    assert '"line":"<urn:é> <urn:p> <urn:o> ."' in found.lines()[-3]


def test_one_side_has_no_branches() -> None:
    history = common()
    behind = common()
    history.add(put("c"), lines("+c"))
    found = preview("main", split(history, behind))
    assert found.winner == LogPosition(4, history.entries[-1].chain)
    assert not found.branches
    chain = history.entries[-1].chain.hex()
    assert found.lines() == [
        f'{{"branches":[],"format":1,"repository":"main","winner":{{"chain":"{chain}","index":4}}}}'
    ]


def test_a_data_centre_that_is_behind_is_of_no_side() -> None:
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    branch.add(put("d"), lines("+d"))
    shorter = branch.branch()
    branch.add(put("f"), lines("+f"))
    strongest = post("m9", rank(9, "m9"), view=ALONE)
    found = preview(
        "main",
        split(winner, branch) | {"dc4": topics(shorter, strongest), "dc5": topics(History(), strongest)},
    )
    assert [one.dcs for one in found.branches] == [("dc3",)]
    assert len(found.branches[0].updates) == 2


def test_two_branches_one_behind_the_other() -> None:
    winner, second, third = common(), common(), common()
    winner.add(put("c"), lines("+c"))
    third.add(drop("c"), lines(""))
    third.add(put("f"), lines("+f"))
    second.add(put("c") + "# again", lines("+c"))
    second.add(drop("a"), lines("-a"))
    second.add(put("f"), lines("+f"))
    found = preview(
        "main",
        {
            "dc1": topics(winner, post("m1", STRONG, view=MAJORITY)),
            "dc2": topics(second, post("m2", WEAKER, view=ALONE)),
            "dc3": topics(third, post("m3", WEAK, view=ALONE)),
        },
    )
    # m3 is greater than m2: the branch of dc3 is considered first.
    assert [one.dcs for one in found.branches] == [("dc3",), ("dc2",)]
    assert classes(found.branches[0]) == [("opposite", "APPLIED", 1, 0), ("commutes", "APPLIED", 0, 1)]
    # Its deletion of c is undone here by the other branch, which inserts c as the winner did.
    assert classes(found.branches[1]) == [
        ("commutes", "APPLIED", 0, 1),
        ("commutes", "APPLIED", 1, 0),
        ("duplicate", None, 0, 0),
    ]
    assert disputed(found.branches[0]) == {quad("c"): "0100"}
    assert disputed(found.branches[1]) == {}


def test_branches_without_a_rank_are_the_last_and_in_the_order_of_their_chains() -> None:
    sides = {"dc1": common(), "dc2": common(), "dc3": common(), "dc4": common()}
    for dc, history in sides.items():
        history.add(put(dc), lines(f"+{dc}"))
    posts = {"dc1": [post("m1", WEAK, view=ALONE)], "dc4": [post("m4", STRONG, view=MAJORITY)]}
    found = preview("main", {dc: topics(one, *posts.get(dc, ())) for dc, one in sides.items()})
    chains = {dc: one.entries[-1].chain for dc, one in sides.items()}
    assert found.winner.chain == chains["dc4"]
    assert [one.last.chain for one in found.branches] == [
        chains["dc1"],
        *sorted([chains["dc2"], chains["dc3"]]),
    ]


def test_forks_differ() -> None:
    winner, early = common(), common()
    early.add(put("f"), lines("+f"))
    winner.add(put("c"), lines("+c"))
    late = winner.branch()
    late.add(put("d"), lines("+d"))
    winner.add(put("h"), lines("+h"))
    found = preview("main", split(winner, early) | {"dc4": topics(late)})
    assert [(one.dcs, one.fork.index) for one in found.branches] == [(("dc3",), 3), (("dc4",), 4)]


def test_the_newest_post_of_each_master_counts() -> None:
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    branch.add(put("d"), lines("+d"))
    weak, strong = rank(1, "m2"), rank(3, "m3")
    posts = [
        post("m3", strong, view=ALONE, sequence=7, incarnation=bytes(16)),
        post("m3", WEAK, view=ALONE, sequence=2, incarnation=bytes(15) + b"1"),
        post("m3", strong, view=ALONE, sequence=1, incarnation=bytes(15) + b"1"),
    ]
    logs = {
        "dc1": topics(winner, post("m1", STRONG, view=MAJORITY)),
        "dc2": topics(winner, post("m2", weak, view=MAJORITY)),
        "dc3": topics(branch, *posts),
    }
    assert preview("main", logs).winner.chain == winner.entries[-1].chain
    relayed = records_of(post("m3", strong, view=ALONE, sequence=9), relayed_from="dc3")
    logs["dc2"] = logs["dc2"]._replace(rounds=[*logs["dc2"].rounds, *relayed])
    logs["dc3"] = topics(branch, *posts, post("m3", strong, view=ALONE, sequence=3, incarnation=b"\xff" * 16))
    assert preview("main", logs).winner.chain == branch.entries[-1].chain


def test_a_post_that_was_passed_on_says_nothing_of_the_data_centre_that_has_it() -> None:
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    branch.add(put("d"), lines("+d"))
    logs = split(winner, branch)
    relayed = records_of(post("m1", STRONG, view=MAJORITY, sequence=9), relayed_from="dc1")
    logs["dc1"] = logs["dc1"]._replace(rounds=())
    logs["dc2"] = logs["dc2"]._replace(rounds=())
    logs["dc3"] = logs["dc3"]._replace(rounds=[*logs["dc3"].rounds, *relayed])
    found = preview("main", logs)
    assert found.winner.chain == branch.entries[-1].chain


def test_without_posts_no_side_wins() -> None:
    with pytest.raises(Unknown, match="none wins"):
        preview("main", {"dc1": topics(common())})
    with pytest.raises(Unknown, match="none wins"):
        preview("main", {"dc1": topics(History(), post("m1", STRONG, view=TOGETHER))})


def test_decisions_of_a_branch_are_not_in_the_plan() -> None:
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    for kind in TransactionKind:
        branch.add(f"of kind {kind}", kind=kind, media_type="application/rdf-patch")
    [found] = preview("main", split(winner, branch)).branches
    assert [one.index for one in found.updates] == [4]
    assert [one.index for one in found.ended] == [7]


def test_a_patch() -> None:
    winner, branch = common(), common()
    winner.add(put("c=1 c=2 d"), lines("+c=1 +c=2 +d"))
    patch = f"TX .\nA {quad('d=1')}\nD {quad('b')}\nDP <urn:c> * * DEFAULT .\nDP * * * <urn:g> .\nTC ."
    branch.add(patch, lines("+d=1 -b -x.g empty:g"), media_type="application/rdf-patch")
    [found] = preview("main", split(winner, branch)).branches
    assert classes(found) == [("opposite", "APPLIED", 4, 1)]
    assert disputed(found) == {quad("c=1"): "0100", quad("c=2"): "0100"}


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { _:b <urn:p> 1 }",
        "INSERT { ?s <urn:at> ?now } WHERE { ?s ?p ?o BIND(now ( ) AS ?now) }",
        "INSERT { ?u <urn:at> 1 } WHERE { BIND(UUID() AS ?u) }",
    ],
)
def test_what_pyoxigraph_alone_cannot_say(text: str) -> None:
    winner, branch = common(), common()
    branch.add(text)
    winner.add(put("c"), lines("+c"))
    with pytest.raises(Unknown, match="entry 4"):
        preview("main", split(winner, branch))


def test_a_preview_needs_the_effects_from_the_empty_state_on() -> None:
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    branch.add(put("d"), lines("+d"))
    whole = split(winner, branch)
    late = {dc: one._replace(effects=list(one.effects)[:4]) for dc, one in whole.items()}
    with pytest.raises(Unknown, match="4 has no effect"):
        preview("main", late)
    seed = Seed(signature=bytes(32), quads=1, digest=GENESIS, at=0, by="m1", sources=())
    sown = {dc: one._replace(effects=[*records_of(seed, epoch=1), *one.effects]) for dc, one in whole.items()}
    with pytest.raises(Unknown, match="empty state"):
        preview("main", sown)


def test_effects_that_the_winner_lacks() -> None:
    """Those of a data centre that is behind it are used; those of a branch are not."""
    winner, branch = common(), common()
    winner.add(put("c"), lines("+c"))
    branch.add(put("d"), lines("+d"))
    whole = split(winner, branch)
    late = whole["dc1"]._replace(effects=list(whole["dc1"].effects)[:3])
    behind = whole["dc2"]._replace(agreed=list(whole["dc2"].agreed)[:-1])
    found = preview("main", {"dc1": late, "dc2": behind, "dc3": whole["dc3"]})
    assert found.hash == preview("main", whole).hash
    with pytest.raises(Unknown, match="3 has no effect"):
        preview("main", {"dc1": late, "dc3": whole["dc3"]})


def test_an_effect_that_the_winner_has_taken_back_does_not_count() -> None:
    winner, branch = common(), common()
    winner.add(SUBJECTS + "# 1", lines("+a=new +b=new"))
    branch.add(put("c"), lines("+c"))
    whole = split(winner, branch)
    back = records_of(Rewind(epoch=2, index=3, term=FENCE.term, attempt=1, cut=0), epoch=2)
    logs = whole | {dc: whole[dc]._replace(effects=[*whole[dc].effects, *back]) for dc in ("dc1", "dc2")}
    with pytest.raises(Unknown, match="4 has no effect"):
        preview("main", logs)
    assert len(preview("main", logs | {"dc1": whole["dc1"]}).branches) == 1


# A split that is over


HANDED = hash_of(b"term of the view in which all are together")


class Over(NamedTuple):
    """The same split before and after the branch gave way."""

    before: dict[str, DataCentreTopics]
    after: dict[str, DataCentreTopics]
    log: History
    winner: LoggedEntry
    branch: list[LoggedEntry]


def rejoined(over: int = 2) -> Over:
    """The winner deletes a and inserts c; the branch inserts both and sets something.

    `over`: how many of its updates the log has again.
    """
    winner, branch = common(), common()
    winner.add(drop("a"), lines("-a"))
    last = winner.add(put("c"), lines("+c"))
    ours = [
        branch.add(put("a c"), lines("+c")),
        branch.add("set something", kind=TransactionKind.CONFIG),
        branch.add(SUBJECTS, lines("+a=new +b=new +c=new")),
    ]
    log = winner.branch()
    again = [(put("a c"), "+a"), (SUBJECTS, "+a=new +b=new +c=new")]
    for text, effect in again[:over]:
        log.add(text, lines(effect), term=HANDED)
    log.add(f"{put('later')}; {drop('a')}", lines("+later -a"), term=HANDED)

    def epochs(entries: list[LoggedEntry], epoch: int) -> list[Record]:
        return records_of(*(replace(one, epoch=epoch) for one in entries))

    cut = Cut(epoch=4, lineage=AGAIN.id, index=FORK, chain=log.entries[FORK - 1].chain)
    handover = Handover(index=0, term=HANDED, dc="dc1", epoch=4)
    rewind = Rewind(epoch=4, index=FORK, term=FENCE.term, attempt=1, cut=4)
    strong = topics(winner, post("m1", STRONG, view=MAJORITY))
    weak = topics(branch, post("m3", WEAK, view=ALONE))
    together = post("m3", rank(4, *AGAIN.members), view=AGAIN, sequence=2)
    home = DataCentreTopics(
        agreed=[*epochs(log.entries[:5], 2), *epochs(log.entries[5:], 4)],
        effects=[
            *records_of(FENCE, *winner.effects, epoch=1),
            *records_of(handover, *log.effects[5:], epoch=4),
        ],
        rounds=[*strong.rounds, *records_of(together)],
    )
    gave_way = DataCentreTopics(
        agreed=[*weak.agreed, *records_of(cut), *epochs(log.entries[FORK:], 4)],
        effects=[
            *weak.effects,
            *records_of(rewind, *log.effects[FORK:5], handover, *log.effects[5:], epoch=4),
        ],
        rounds=[*weak.rounds, *records_of(together)],
    )
    return Over({"dc1": strong, "dc3": weak}, {"dc1": home, "dc3": gave_way}, log, last, ours)


def name_of(branch: list[LoggedEntry]) -> str:
    return f"{FORK}-{branch[-1].lineage.hex()[:12]}"


def test_a_report_has_the_hash_of_the_preview() -> None:
    over = rejoined()
    before, found = preview("main", over.before), report("main", over.after)
    assert found.winner == LogPosition(over.winner.index, over.winner.chain)
    assert [one.name for one in found.branches] == [name_of(over.branch)]
    assert classes(found.branches[0]) == [("opposite", "APPLIED", 0, 1), ("commutes", "APPLIED", 0, 3)]
    assert [one.index for one in found.branches[0].updates] == [4, 6]
    assert [one.index for one in found.branches[0].ended] == [5]
    assert disputed(found.branches[0]) == {quad("a"): "1011"}
    assert found.lines() == before.lines()
    assert found.hash == before.hash
    assert not preview("main", over.after).branches


def test_an_update_that_the_log_does_not_have_yet() -> None:
    found = report("main", rejoined(over=1).after)
    assert classes(found.branches[0]) == [("opposite", "APPLIED", 0, 1), ("waits", None, 0, 0)]


def test_an_entry_without_an_effect_waits() -> None:
    over = rejoined()
    after = {dc: one._replace(effects=list(one.effects)[:-2]) for dc, one in over.after.items()}
    found = report("main", after)
    assert classes(found.branches[0]) == [("opposite", "APPLIED", 0, 1), ("waits", None, 0, 0)]


def test_a_topic_that_does_not_have_the_whole_log_yet() -> None:
    """The other data centre has it, also its effects."""
    over = rejoined()
    late = over.after["dc3"]
    for count in range(len(list(over.before["dc3"].agreed)) + 1, len(list(late.agreed))):
        cut_off = late._replace(agreed=list(late.agreed)[:count], effects=over.before["dc3"].effects)
        found = report("main", {"dc0": cut_off, "dc1": over.after["dc1"]})
        assert found.hash == preview("main", over.before).hash


def test_topics_that_were_trimmed() -> None:
    """A line that is deleted existed, also if no effect says how it came to be."""
    over = rejoined()
    after = {
        dc: one._replace(agreed=list(one.agreed)[2:], effects=list(one.effects)[3:])
        for dc, one in over.after.items()
    }
    assert report("main", after).hash == preview("main", over.before).hash


def test_a_cut_further_back_than_the_fork() -> None:
    over = rejoined()
    first = over.log.entries[0]
    late = over.after["dc3"]
    records = list(over.before["dc3"].agreed)
    agreed = [
        *records,
        *records_of(
            Cut(epoch=4, lineage=AGAIN.id, index=1, chain=first.chain),
            Cut(epoch=4, lineage=AGAIN.id, index=FORK, chain=over.log.entries[FORK - 1].chain),
            *(replace(one, epoch=4) for one in over.log.entries[1:]),
        ),
    ]
    found = report("main", over.after | {"dc3": late._replace(agreed=agreed)})
    assert found.hash == preview("main", over.before).hash


def test_a_data_centre_that_was_behind_on_its_side_has_no_branch_of_its_own() -> None:
    over = rejoined()
    side = over.after["dc3"]
    count = len(list(over.before["dc3"].agreed))
    records = list(side.agreed)
    behind = side._replace(agreed=[*records[: count - 1], *records[count:]], rounds=())
    found = report("main", over.after | {"dc2": behind, "dc4": side})
    assert [one.dcs for one in found.branches] == [("dc3", "dc4")]
    assert found.hash == preview("main", over.before).hash


def test_a_branch_that_ended_in_two_views() -> None:
    """The first one of them let it in."""
    over = rejoined()
    cut = Cut(epoch=5, lineage=AGAIN.id, index=FORK, chain=over.log.entries[FORK - 1].chain)
    again = (replace(one, epoch=5) for one in over.log.entries[FORK:])
    late = DataCentreTopics(agreed=[*over.before["dc3"].agreed, *records_of(cut, *again)])
    for dc in ("dc2", "dc4"):
        found = report("main", over.after | {dc: late})
        assert [set(one.dcs) for one in found.branches] == [{"dc3", dc}]
        assert found.winner.index == over.winner.index


def test_a_shorter_branch_that_ended_in_another_view_is_a_branch_of_its_own() -> None:
    over = rejoined()
    records = records_of(
        *common().entries,
        *over.branch[:2],
        Cut(epoch=5, lineage=AGAIN.id, index=FORK, chain=over.log.entries[FORK - 1].chain),
        *(replace(one, epoch=5) for one in over.log.entries[FORK:]),
    )
    names = branch_names(over.after | {"dc2": DataCentreTopics(agreed=records)})
    assert names == [name_of(over.branch[:2]), name_of(over.branch)]


def test_a_cut_while_another_data_centre_is_still_on_the_branch() -> None:
    over = rejoined()
    cut = Cut(epoch=4, lineage=AGAIN.id, index=FORK, chain=over.log.entries[FORK - 1].chain)
    weak = over.before["dc3"]
    gave_way = weak._replace(agreed=[*weak.agreed, *records_of(cut)])
    found = report("main", {"dc1": over.before["dc1"], "dc3": gave_way, "dc4": weak})
    assert [one.name for one in found.branches] == [name_of(over.branch)]
    assert found.winner.index == over.winner.index
    assert classes(found.branches[0]) == [("waits", None, 0, 0)] * 2


def test_the_ranks_of_a_report_are_those_of_before() -> None:
    """Two branches end in one view; the posts in that view have one rank."""
    over = rejoined()
    other = common()
    other.add(put("f"), lines("+f"))
    weak = topics(other, post("m2", WEAKER, view=ALONE))
    gave_way, together = (
        over.after["dc3"],
        post("m2", rank(9, *AGAIN.members), view=AGAIN, sequence=2),
    )
    ours = len(list(over.before["dc3"].agreed))
    ended = DataCentreTopics(
        agreed=[*weak.agreed, *list(gave_way.agreed)[ours:]],
        effects=weak.effects,
        rounds=[*weak.rounds, *records_of(together)],
    )
    found = report("main", over.after | {"dc2": ended})
    assert [one.dcs for one in found.branches] == [("dc3",), ("dc2",)]
    assert classes(found.branches[1]) == [("waits", None, 0, 0)]
    strong = rank(2, "m2")
    ended = ended._replace(rounds=records_of(post("m2", strong, view=ALONE), together))
    found = report("main", over.after | {"dc2": ended})
    assert [one.dcs for one in found.branches] == [("dc2",), ("dc3",)]
    silent = [ended._replace(rounds=()), gave_way._replace(rounds=())]
    for names in ("dc2", "dc3"), ("dc3", "dc2"):
        found = report("main", over.after | dict(zip(names, silent, strict=True)))
        chains = [one.last.chain for one in found.branches]
        assert chains == sorted(chains)


def test_the_newest_split_and_another_one() -> None:
    over = rejoined()
    gave_way = over.after["dc3"]
    apart = over.log.branch()
    apart.add(put("f"), lines("+f"))
    over.log.add(put("h"), lines("+h"))
    fork = over.log.entries[-2]
    cut = Cut(epoch=7, lineage=AGAIN.id, index=fork.index, chain=fork.chain)
    after = {
        "dc1": over.after["dc1"]._replace(
            agreed=[*over.after["dc1"].agreed, *records_of(replace(over.log.entries[-1], epoch=6))]
        ),
        "dc3": gave_way._replace(
            agreed=[
                *gave_way.agreed,
                *records_of(replace(apart.entries[-1], epoch=5), cut, replace(over.log.entries[-1], epoch=7)),
            ]
        ),
    }
    newest = f"{fork.index}-{apart.entries[-1].lineage.hex()[:12]}"
    assert branch_names(after) == [newest, name_of(over.branch)]
    assert [one.name for one in report("main", after).branches] == [newest]
    assert report("main", after).winner.index == fork.index + 1
    assert report("main", after, name_of(over.branch)).hash == preview("main", over.before).hash
    with pytest.raises(Unknown, match="3-0123"):
        report("main", after, "3-0123")


def test_a_log_that_was_taken_over_and_ended_later() -> None:
    """What became of the first branch is what the log said when that log itself gave way."""
    over = rejoined()
    strange = History()
    strange.add("another beginning", lines("+f"))
    cut = Cut(epoch=9, lineage=AGAIN.id, index=0, chain=GENESIS)
    taken = records_of(cut, replace(strange.entries[0], epoch=9))
    after = {dc: one._replace(agreed=[*one.agreed, *taken]) for dc, one in over.after.items()}
    assert report("main", after, name_of(over.branch)).hash == preview("main", over.before).hash
    assert report("main", after).branches[0].fork == START


def test_a_cut_after_which_all_is_written_again_ends_no_branch() -> None:
    log = common().entries
    cut = Cut(epoch=4, lineage=AGAIN.id, index=1, chain=log[0].chain)
    again = [replace(one, epoch=4) for one in log[1:]]
    assert branch_names({"dc1": DataCentreTopics(agreed=records_of(*log, cut, *again))}) == []


def test_without_a_branch_that_has_ended_there_is_no_report() -> None:
    with pytest.raises(Unknown, match="no branch"):
        report("main", rejoined().before)
