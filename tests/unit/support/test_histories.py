"""What the checker makes of histories of appends to lists: `tests/support/histories`.

A case is a line, `name | anomalies | operations`, with an operation like one of these:

- `t1 0-2 x1 y2 async unknown index=3`: transaction t1, from 0 s to 2 s, appends 1 to x and 2 to y (sync, done);
- `told 3 t1 applied index=3`: what `/tx` told;
- `read 4-5 x12 y strict`: 1 and 2 were in x, and nothing was in y (prefix);
- `end x12 y w2`: the final read, at w2 (w1).
"""

from __future__ import annotations

import gc
import io
import time
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.support.histories.checker import check
from tests.support.histories.faults import PLANTS, plant
from tests.support.histories.generator import generate
from tests.support.histories.model import (
    AnomalyKind,
    AppendMode,
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    Operation,
    ReadKind,
    ReportedState,
    TxReport,
    VotingMasters,
    dump,
    load,
)

CASES = """
nothing                              | | end
lost                                 | lost append | t1 0-1 x1; end x
lost in a part                       | lost append | t1 0-1 x1 y2; read 2-3 x1 y2; end x1
lost, asynchronous                   | lost append | t1 0-1 x1 async; end
unknown, there                       | | t1 0-1 x1 unknown; told 2 t1 pending; end x1
unknown, not there                   | | t1 0-1 x1 unknown; told 2 t1 pending; end x
unknown, there in a part             | fractured read | t1 0-1 x1 y2 unknown; end x1 y
twice                                | doubled append | t1 0-1 x1; t2 0-1 x2; read 2-3 x12; end x121
twice in a read                      | doubled append | t1 0-1 x1; read 2-3 x11; end x1
twice everywhere                     | doubled append | t1 0-1 x1; t2 0-9 x2; read 2-3 x112; end x112
never asked                          | unasked value | end x1
never asked, in a read               | unasked value | read 2-3 x1; end x
workers differ                       | divergent workers | t1 0-1 x1; end x w1; end x1 w2; end x1 w3
dirty                                | dirty read | t1 0-1 x1 rolled_back; read 0-1 x1; end x
dirty, never known                   | dirty read | t1 0-1 x1 unknown; read 0-1 x1; end x
dirty, before others                 | dirty read | t1 0-9 x1 refused; t2 0-9 x2; read 0-1 x12; end x2
falsely rolled back                  | false rollback | t1 0-1 x1 rolled_back; end x1
falsely refused                      | false rollback | t1 0-1 x1 refused; end x1
refused, then done                   | | t1 0-1 x1 refused; t1 2-3 x1; end x1
refused, then unknown                | | t1 0-1 x1 refused; t1 2-3 x1 unknown; end x1
refused, then falsely rolled back    | false rollback | t1 0-1 x1 refused; t1 2-3 x1 rolled_back; end x1
told applied, not there              | contradicted report | t1 0-1 x1 unknown; told 2 t1 applied; end x
told rolled back, there              | contradicted report | t1 0-1 x1 unknown; told 2 t1 rolled_back; end x1
told applied, and rolled back        | turned decision, contradicted report | \
    t1 0-1 x1 unknown; told 2 t1 applied; told 3 t1 rolled_back; end x1
done, then told rolled back          | turned decision, lost append | t1 0-1 x1; told 2 t1 rolled_back; end x
rolled back, then done               | turned decision, false rollback | t1 0-1 x1 rolled_back; t1 2-3 x1; end x1
done at two indexes                  | turned decision | t1 0-1 x1 index=1; told 2 t1 applied index=2; end x1
one index for two                    | duplicate index | t1 0-3 x1 index=1; t2 0-3 y2 index=1; end x1 y2
done by a minority                   | commit on a minority | t1 0-1 x1 minority; end x1
done by half of the view             | commit on a minority | masters m1=a m2=a m3=b; t1 0-1 x1 view=m1,m2; end x1
done by most of the view             | | masters m1=a m2=b m3=c; t1 0-1 x1 view=m1,m3; end x1
done by a minority, asynchronously   | | t1 0-1 x1 async minority; end x1
done before, repeated by a minority  | | t1 0-1 x1 unknown; t1 2-3 x1 minority; end x1
refused, then done by a minority     | commit on a minority | t1 0-1 x1 refused; t1 2-3 x1 minority; end x1
done by a minority, then repeated    | commit on a minority | t1 0-1 x1 minority; t1 2-3 x1; end x1
another order                        | incompatible orders | t1 0-9 x1; t2 0-9 x2; read 5-6 x21; end x12
a gap                                | incompatible orders | t1 0-9 x1; t2 0-9 x2; read 5-6 x2; end x12
fractured                            | fractured read | t1 0-9 x1 y2; read 5-6 x1 y; end x1 y2
fractured in one list                | fractured read | t1 0-9 x1 x2; read 5-6 x1; end x12
fractured earlier                    | fractured read | t1 0-9 x1 y2; t2 0-9 x3; read 5-6 x13 y; end x13 y2
fractured, with another one          | fractured read | t1 0-9 x1 y3; t2 0-9 x2 y4; read 5-6 x12 y4; end x12 y43
no other list is read                | | t1 0-9 x1 y2; read 5-6 x1; end x1 y2
from the future                      | future read | t1 2-3 x1; read 0-1 x1; end x1
stale                                | stale read | t1 0-1 x1; read 2-3 x strict; end x1
stale, asynchronous                  | stale read | t1 0-1 x1 async; read 2-3 x strict; end x1
stale after a report                 | stale read | t1 0-1 x1 unknown; told 2 t1 applied; read 3-4 x strict; end x1
stale after a strict read            | stale read | t1 0-9 x1; read 2-3 x1 strict; read 4-5 x strict; end x1
concurrent with a strict read        | | t1 0-2 x1; read 2-3 x strict; end x1
failed                               | | t1 0-1 x1; read 2-3 x strict failed; end x1
old                                  | | t1 0-1 x1; read 2-3 x; end x1
stale for its client                 | stale read | t1 0-1 x1 async by=c; read 2-3 x session by=c; end x1
old for another client               | | t1 0-1 x1 by=c; read 2-3 x session by=d; end x1
later, before it in the list         | real-time order | t1 0-1 x1; t2 2-3 x2 unknown; end x21
later, with a lower index            | real-time order | t1 0-1 x1 index=2; t2 2-3 y2 index=1; end x1 y2
later, asynchronous                  | | t1 0-1 x1 y3 index=2; t2 2-3 x2 index=1 async; end x21 y3
later than an asynchronous one       | | t1 0-1 x1 index=2 async; t2 2-3 x2 index=1; end x21
the list against the indexes         | index order | t1 0-9 x1 index=2; t2 0-9 x2 index=1; end x12
a read lacks what its index has      | index order | t1 0-1 x1 index=5; read 2-3 x index=5; end x1
a read has more than its index       | index order | t1 0-1 x1 index=5; read 2-3 x1 index=4; end x1
one index, two states                | index order | t1 0-1 x1; read 2-3 x index=5; read 2-3 x1 index=5; end x1
a higher index, less                 | index order | t1 0-1 x1; read 2-3 x index=6; read 2-3 x1 index=5; end x1
higher indexes, less                 | index order, index order | t1 0-1 x1; read 2-3 x1 index=5; read 2-3 x index=6; \
    read 2-3 x index=7; end x1
two reads lack each other's          | order cycle | t1 0-9 x1; t2 0-9 y2; read 2-3 x1 y; read 2-3 x y2; end x1 y2
two lists, two orders                | order cycle | t1 0-9 x1 y3; t2 0-9 x2 y4; end x12 y43
in the midst of another one          | order cycle | t1 0-9 x1 x3; t2 0-9 x2; end x123
two lists, against the indexes       | order cycle | t1 0-9 x1 index=1; t2 0-9 y2 index=2; read 2-3 x y2; end x1 y2
two lists, index of a read           | order cycle | t1 0-9 x1 index=4; t2 0-9 y2; read 1-2 y2 index=3; \
    read 1-2 x1 y; end x1 y2
two lists, index of a later read     | order cycle | t1 0-9 x1 index=3; t2 0-9 y2; read 1-2 y index=4; \
    read 1-2 x y2; end x1 y2
two lists, against time              | order cycle | t1 0-1 x1; t2 2-3 y2; read 2-3 x y2; end x1 y2
two lists, in no order of time       | | t1 0-1 x1; t2 2-3 y2 async; read 2-3 x y2; end x1 y2
two lists, against a strict read     | order cycle | t1 0-1 x1; read 2-3 y strict; t2 0-9 y2; read 2-9 x y2; end x1 y2
two lists, against a session         | order cycle | t1 0-1 x1 async by=c; read 2-3 y session by=c; t2 0-9 y2 async; \
    read 2-9 x y2; end x1 y2
after a strict read, before it       | order cycle | t1 0-9 x1 async; read 1-2 x1 strict; t2 3-4 y2; read 3-4 x y2; \
    end x1 y2
after a read, before it              | order cycle | t1 0-1 x1 async; read 1-2 x1; t2 3-4 y2 async; read 3-4 x y2; \
    end x1 y2
""".replace("\\\n", "")
MALFORMED = """
no final read          | t1 0-1 x1
by two transactions    | t1 0-1 x1; t2 0-1 x1; end x1
appends a value twice  | t1 0-1 x1 x1; end x1
different transactions | t1 0-1 x1; t1 0-1 x2; end x1
nobody asked for       | told 2 t1 pending; end
"""


def history_of(text: str) -> list[Operation]:
    return [_operation(*words.split()) for words in text.split(";")]


def _operation(name: str, *words: str) -> Operation:
    named = dict(word.split("=") for word in words if "=" in word)
    index = int(named["index"]) if "index" in named else None
    keys = [word for word in words if word[0] in "xy" and "=" not in word]
    if name == "masters":
        return VotingMasters(named)
    if name == "told":
        return TxReport(words[1], "m1", float(words[0]), ReportedState(words[2]), index)
    if name == "end":
        lists = {word[0]: tuple(map(int, word[1:])) for word in keys}
        return ListRead("end", words[-1] if words else "w1", ReadKind.FINAL, lists, 100.0, 101.0)
    begin, end = map(float, words[0].split("-"))
    client = named.get("by", f"of {name}")
    if name == "read":
        kind = next((kind for kind in ReadKind if kind in words), ReadKind.PREFIX)
        lists = {word[0]: tuple(map(int, word[1:])) for word in keys}
        return ListRead(client, "m2", kind, lists, begin, end, index, is_ok="failed" not in words)
    return AppendTransaction(
        name,
        client,
        "m1",
        AppendMode.ASYNC if "async" in words else AppendMode.SYNC,
        tuple(ListAppend(word[0], int(word[1:])) for word in keys),
        begin,
        end,
        next((outcome for outcome in AppendOutcome if outcome in words), AppendOutcome.DONE),
        index,
        majority=False if "minority" in words else None,
        view_members=tuple(named["view"].split(",")) if "view" in named else (),
    )


@pytest.mark.parametrize("case", CASES.strip().splitlines(), ids=lambda case: case.split("|")[0].strip())
def test_a_case(case: str) -> None:
    _, kinds, text = case.split("|")
    history = history_of(text)
    found = check(history)
    expected = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    assert sorted(one.kind for one in found) == sorted(expected), found
    assert all(one.explanation.endswith(".") and one.operations for one in found)
    assert all(any(operation is known for known in history) for one in found for operation in one.operations)


@pytest.mark.parametrize("case", MALFORMED.strip().splitlines())
def test_a_malformed_history_is_refused(case: str) -> None:
    message, text = case.split("|")
    with pytest.raises(ValueError, match=message.strip()):
        check(history_of(text))


def test_correct_histories_have_no_anomaly() -> None:
    found = {seed: anomalies for seed in range(300) if (anomalies := check(generate(seed, operations=150)))}
    assert found == {}


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_fault_is_found_and_nothing_else(kind: AnomalyKind) -> None:
    for seed in range(100):
        found = check(plant(generate(seed, operations=100), kind, Random(seed)))
        assert {one.kind for one in found} == {kind}, (seed, found)


def test_generated_histories_have_all_kinds_of_operations() -> None:
    history = generate(1, operations=1000)
    appends = [one for one in history if isinstance(one, AppendTransaction)]
    assert len({(one.mode, one.outcome) for one in appends}) == len(AppendMode) * len(AppendOutcome)
    assert len({one.tx for one in appends}) < len(appends), "none was sent again"
    assert {one.kind for one in history if isinstance(one, ListRead)} == set(ReadKind)
    assert {one.state for one in history if isinstance(one, TxReport)} == set(ReportedState)
    times = sorted((one.invoked, one.completed) for one in appends)
    assert any(later[0] < earlier[1] for earlier, later in pairwise(times)), "none are concurrent"


def test_a_history_is_kept_in_a_file() -> None:
    history, file = generate(7), io.StringIO()
    dump(history, file)
    assert len(file.getvalue().splitlines()) == len(history)
    file.seek(0)
    assert load(file) == history
    with pytest.raises(ValueError, match="no known type"):
        load(io.StringIO('{"type": "write"}\n'))


def test_many_faults_are_found_at_once() -> None:
    """Each tenth read of several lists shows less of one of them: cycles would go through all of the history."""
    history = generate(3, operations=3000)
    reads = [
        place for place, one in enumerate(history) if isinstance(one, ListRead) and len(one.lists) in {2, 3}
    ]
    for place in reads[::10]:
        one = history[place]
        assert isinstance(one, ListRead)
        key = min(one.lists)
        history[place] = replace(one, lists={**one.lists, key: one.lists[key][:-2]}, index=None)
    begin = time.process_time()
    found = {one.kind for one in check(history)}
    assert {AnomalyKind.STALE_READ, AnomalyKind.FRACTURED_READ, AnomalyKind.ORDER_CYCLE} <= found
    assert time.process_time() - begin < 10


def test_time_grows_in_proportion() -> None:
    """Of eight times as many operations there are 64 times as many pairs."""
    small, large = generate(1, operations=2000), generate(1, operations=16_000)

    def seconds(history: list[Operation]) -> float:
        begin = time.process_time()
        assert check(history) == []
        return time.process_time() - begin

    assert min(seconds(large) for _ in range(2)) < 24 * min(seconds(small) for _ in range(3))
    assert gc.isenabled()
