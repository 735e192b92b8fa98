"""What a worker does for an update, evaluating and following, beside pyoxigraph's own `update` of the same text.

The real replica on a real store, without Kafka: what it hears is decoded, what it says is encoded.  On a young
store, and on one with a history: an index that has lost many quads is slower to look things up in.

A rate is of the CPU of the thread that does it all, the best of some runs: the machine has others to serve.

    python -m tests.bench.applying --updates 2000
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pyoxigraph import Literal, NamedNode, Quad, Store
from rich.console import Console

from quadlog.core.effects import signature
from quadlog.core.effects.lines import quads_of
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.commit import UpdateText, net_of
from quadlog.quadstore.quaddir import FILES
from quadlog.quadstore.quadstore import QuadStore
from quadlog.web.server import YOUNG
from tests.bench.asked import StoreRecorder, seconds
from tests.bench.figures import Applying
from tests.bench.workload import LISTS, Workload, setup, texts
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from quadlog.core.records import Effect

BATCHES: Final = (1, 10, 100, 1000)
EVALUATED: Final = 50
"""Entries that an evaluating worker has before it hears its effects back, as under load."""

HISTORY: Final = 20_000
"""List appends that a store with a history has behind it."""
QUADS: Final = 100_000
"""And quads that it has, at least; behind a shorter history as much less."""

RUNS: Final = 3

PREFIX: Final = "urn:bench:0:"
REWRITTEN: Final = 5
"""Properties of a record; a rewrite takes them all out and puts as many in."""


def inserts(quads: int, count: int) -> Iterator[str]:
    """Updates with so many new quads each."""
    for number in range(count):
        body = " ; ".join(f'<urn:p{n}> "v{number}-{n}"' for n in range(quads))
        yield f"INSERT DATA {{ <{PREFIX}{number}> {body} }}"


def appends(count: int) -> Iterator[str]:
    """The list append of the other measurements: one quad out, four in."""
    yield from islice(texts(Workload.APPEND, PREFIX), count)


def marks(count: int) -> Iterator[str]:
    """One quad more where a WHERE finds something."""
    for number in range(count):
        where = f"VALUES ?k {{ <{PREFIX}list:{number % LISTS}> }} ?k <urn:len> ?n"
        yield f"INSERT {{ ?k <urn:mark> {number} }} WHERE {{ {where} }}"


def rewrites(count: int) -> Iterator[str]:
    """All of a record is replaced: five quads out, five in."""
    for number in range(count):
        where = f"VALUES ?e {{ <{PREFIX}record:{number % LISTS}> }} ?e ?p ?o"
        yield f"DELETE {{ ?e ?p ?o }} INSERT {{ ?e {_properties(number)} }} WHERE {{ {where} }}"


def _properties(number: int) -> str:
    return " ; ".join(f'<urn:p{n}> "w{number}-{n}"' for n in range(REWRITTEN))


def begin(place: Path, history: int) -> Path:
    """A worker's store that the measurements begin with, closed; all of them with copies of it."""
    place.mkdir(parents=True)
    store = Store(place / FILES)
    lists = setup(Workload.APPEND, PREFIX)
    assert lists is not None
    store.update(lists)
    records = " ".join(f"<{PREFIX}record:{n}> {_properties(-1)} ." for n in range(LISTS))
    store.update(f"INSERT DATA {{ {records} }}")
    for text in appends(history):
        store.update(text)
    if history:
        store.extend(_others(QUADS * history // HISTORY - len(store)))
    store.flush()
    lines = [signature.quad_line(quad) for quad in store]
    del store
    QuadStore.adopt(place, Applied(signature=signature.add(signature.EMPTY, lines), quads=len(lines)))
    return place


def _others(count: int) -> Iterator[Quad]:
    return (
        Quad(NamedNode(f"urn:other:{n}"), NamedNode("urn:p"), Literal(f"value {n}")) for n in range(count)
    )


def measure(directory: Path, *, updates: int, history: int = HISTORY, runs: int = RUNS) -> list[Applying]:
    """All workloads, each plain, evaluated, followed in batches, and bare quads; the best of some runs."""
    workloads: dict[str, Callable[[int], Iterator[str]]] = {
        "insert 1 quad": lambda count: inserts(1, count),
        "insert 10 quads": lambda count: inserts(10, count),
        "WHERE, 1 quad": marks,
        "append, 5 quads": appends,
        "WHERE, 10 quads": rewrites,
    }
    found: list[Applying] = []
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, *before[1:])  # as in a worker's process
    for age in dict.fromkeys((0, history)):
        base = begin(directory / f"begin-{age}", age)
        for name, make in workloads.items():
            said, place = list(make(updates)), directory / "place"
            measured: list[Applying] = []
            for _ in range(runs):
                evaluated, log = _evaluated(base, place, said)
                run = Applying(
                    workload=name,
                    history=age,
                    plain=_plain(base, place / "plain", said),
                    bare=_bare(base, place, log.effects()),
                    evaluated=evaluated,
                    asked=_asked(base, place, said),
                    followed={batch: _followed(base, place, log, batch) for batch in BATCHES},
                )
                measured.append(run)
                shutil.rmtree(place)
            found.append(_best(measured))
    gc.set_threshold(*before)
    return found


def _best(runs: Sequence[Applying]) -> Applying:
    return Applying(
        workload=runs[0].workload,
        history=runs[0].history,
        plain=max(run.plain for run in runs),
        bare=max(run.bare for run in runs),
        evaluated=max(run.evaluated for run in runs),
        asked=max(run.asked for run in runs),
        followed={batch: max(run.followed[batch] for run in runs) for batch in BATCHES},
    )


def _plain(base: Path, path: Path, said: Sequence[str]) -> float:
    store = Store(shutil.copytree(base, path) / FILES)
    began = time.thread_time()
    for text in said:
        store.update(text)
    return len(said) / (time.thread_time() - began)


def _bare(base: Path, place: Path, effects: Sequence[Effect]) -> float:
    """The best that can be had of pyoxigraph: the same net changes in large batches, with all else done before."""
    rates: list[float] = []
    for batch in BATCHES[2:]:
        store = Store(shutil.copytree(base, place / f"bare-{batch}") / FILES)
        batches = [effects[start : start + batch] for start in range(0, len(effects), batch)]
        rates.append(_rate(store.update, [_text(batch) for batch in batches], len(effects)))
        if not any(effect.deleted for effect in effects):
            store = Store(shutil.copytree(base, place / f"extended-{batch}") / FILES)
            quads = [list(quads_of(net_of(batch).quads)) for batch in batches]
            rates.append(_rate(store.extend, quads, len(effects)))
    return max(rates)


def _rate(do: Callable[..., None], batches: Sequence[object], updates: int) -> float:
    began = time.thread_time()
    for batch in batches:
        do(batch)
    return updates / (time.thread_time() - began)


def _text(effects: Sequence[Effect]) -> str:
    return UpdateText.of(net_of(effects)).text()


def _evaluated(base: Path, place: Path, said: Sequence[str]) -> tuple[float, Log]:
    shutil.copytree(base, place / "evaluates")
    worker = Worker(place, Log(), "evaluates")
    rate = _evaluate(worker, said)
    worker.close()
    return rate, worker.log


def _asked(base: Path, place: Path, said: Sequence[str]) -> float:
    shutil.copytree(base, place / "asked")
    worker = Worker(place, Log(), "asked")
    worker.store._store = recorder = StoreRecorder(worker.store._store)  # type: ignore[assignment]
    _evaluate(worker, said)
    asked = tuple(recorder.asked)
    worker.close()
    store = Store(shutil.copytree(base, place / "asked-again") / FILES)
    return len(said) / seconds(store, asked)


def _evaluate(worker: Worker, said: Sequence[str]) -> float:
    """All of it, from the duty on; entries a second of its thread's CPU."""
    log = worker.log
    worker.take_over()
    for text in said:
        log.agree(text)
    began = time.thread_time()
    while worker.store.applied.index < len(said):
        worker.hear(TOPICS.agreed, EVALUATED)
        worker.turn()
        worker.hear(TOPICS.effects)
        worker.turn()
    return len(said) / (time.thread_time() - began)


def _followed(base: Path, place: Path, log: Log, batch: int) -> float:
    name = f"follows-{batch}"
    shutil.copytree(base, place / name)
    return followed(Worker(place, log, name), batch)


def followed(worker: Worker, batch: int) -> float:
    """Effects a second of its thread's CPU; `batch` of them are there at once, and a commit takes what it takes."""
    count = len(worker.log.records[TOPICS.agreed])
    began = time.thread_time()
    while worker.store.applied.index < count:
        worker.hear(TOPICS.agreed, batch)
        worker.hear(TOPICS.effects, batch)
        worker.turn()
    rate = count / (time.thread_time() - began)
    worker.close()
    return rate


def main(
    *,
    updates: Annotated[int, typer.Option(help="Of each workload.")] = 2000,
    history: Annotated[int, typer.Option(help="List appends behind the older store.")] = HISTORY,
) -> None:
    """Measure one worker alone, without a cluster."""
    from tests.bench.report import applying_table  # noqa: PLC0415 - it knows of this module's figures

    with tempfile.TemporaryDirectory(prefix="quadlog-bench-") as directory:
        found = measure(Path(directory), updates=updates, history=history)
    Console(width=160).print(applying_table(found))


if __name__ == "__main__":
    typer.run(main)
