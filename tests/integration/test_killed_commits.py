"""Kill -9 in the middle of a commit: all of it is there, or nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from quadlog.quadstore.quadstore import QuadStore

if TYPE_CHECKING:
    from pathlib import Path

VICTIM = """
import sys
from dataclasses import replace
from pathlib import Path
from quadlog.core.effects import signature
from quadlog.core.effects.lines import lines_of
from quadlog.core.effects.effect import effect_of
from quadlog.core.sparql.update import parse_update
from quadlog.quadstore.quadstore import QuadStore

class Told:
    # pyoxigraph's store, telling when it begins and ends a commit
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def __contains__(self, quad):
        return quad in self.inner
    def update(self, *args, **options):
        print("begin", flush=True)
        self.inner.update(*args, **options)
        print("end", flush=True)

store = QuadStore.open(Path(sys.argv[1]))
print("at", store.applied.index, flush=True)
store._store = Told(store._store)
while True:
    applied, batch = store.applied, []
    for n in range(applied.index, applied.index + 3):
        g = f"GRAPH <urn:g{n % 7}>"
        many = " ".join(f"<urn:s{n}> <urn:m> {k} ." for k in range(300))
        text = f"INSERT DATA {{ <urn:s{n}> <urn:p> _:x . {many} {g} {{ _:x <urn:q> {n} }} }}"
        text += f" ; DELETE DATA {{ {g} {{ <urn:k> <urn:v> {n - 7} }} }}"
        text += f" ; INSERT DATA {{ {g} {{ <urn:k> <urn:v> {n} }} }}"
        change = effect_of(parse_update(text, tx_id=b"%d" % n), store)
        batch.append(lines_of(change))
        applied = replace(applied, index=applied.index + 1, quads=applied.quads + change.growth,
                          signature=signature.after(applied.signature, lines_of(change)))
    store.apply(batch, applied)
"""


def killed_in_a_commit(path: Path, chance: random.Random) -> tuple[int, int, int] | None:
    """Where a store stood when a process took it up, the commits that it ended, and where it stands after kill -9.

    None: the commit had ended before the kill came.
    """
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(path)], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    start = int(victim.stdout.readline().removeprefix("at "))
    ended, began, took = 0, 0.0, 0.0
    for _ in range(chance.randint(1, 3)):
        assert victim.stdout.readline() == "begin\n"
        began = time.perf_counter()
        assert victim.stdout.readline() == "end\n"
        took, ended = time.perf_counter() - began, ended + 1
    assert victim.stdout.readline() == "begin\n"
    time.sleep(chance.uniform(0, took))
    victim.send_signal(signal.SIGKILL)
    is_hit = "end\n" not in victim.stdout.readlines()
    victim.wait()
    victim.stdout.close()
    store = QuadStore.open(path)
    assert store.recount() == (store.applied.signature, store.applied.quads)
    stands = store.applied.index
    store.close()
    return (start, ended, stands) if is_hit else None


@pytest.mark.parametrize("wanted", [8, pytest.param(20, marks=pytest.mark.soak)])
def test_after_kill_9_within_a_commit_the_applied_index_and_the_quads_agree(
    tmp_path: Path, wanted: int
) -> None:
    """All of a commit is there, or nothing of it; both happen within so many kills that hit one."""
    chance, hits, kills = random.Random(7), Counter[bool](), 0
    while hits.total() < wanted or len(hits) < 2:
        kills += 1
        assert kills < 10 * wanted, hits
        if found := killed_in_a_commit(tmp_path, chance):
            start, ended, stands = found
            before = start + 3 * ended
            assert stands in {before, before + 3}, (
                "what had ended is there, what had begun is there as a whole"
            )
            hits[stands > before] += 1
    print(
        f"{kills} kills, within a commit {hits.total()}: {hits[True]} times it was there, {hits[False]} not"
    )
