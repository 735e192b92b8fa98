"""A worker takes a seed up whole or not at all, begins with it again when it is rebuilt, and takes no other one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from producers.effects import EffectsMirror
from quadlog.answers import handle_error
from quadlog.core.model import Seed
from quadlog.errors import NotEmpty, QuadlogError, Unavailable
from quadlog.parcel import FILES, Label, pieces_of
from quadlog.quadstore import QuadStore
from quadlog.seed.build import build
from quadlog.seed.progress import Phases
from quadlog.seed.sources import files_of
from quadlog.worker import mend
from quadlog.worker.health import Health
from quadlog.worker.mend import QUADS
from quadlog.worker.seed_door import SeedDoor
from quadlog.worker.seedbed import Seedbed
from tests.integration.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from pathlib import Path


class Ground:
    """A worker's data-dir with an open store, and what its process would do."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(exist_ok=True)
        self.data_dir, self.health, self.left = data_dir, Health(), 0
        mend.tidy(data_dir)
        self.store = QuadStore.open(data_dir / QUADS)
        self.bed = Seedbed(data_dir, self.store, self.health, self.leave)
        self.bed.tidy()

    def leave(self) -> None:
        self.left += 1

    def take(self, label: Label, files: Path) -> None:
        """As its door does."""
        draft = self.bed.begin(label)
        assert draft is not None
        try:
            for piece in pieces_of(files):
                draft.feed(piece)
            draft.end()
        finally:
            draft.close()

    def end(self) -> Ground:
        """The process ends, and becomes a new one."""
        self.store.close()
        if self.bed.wanted:
            self.bed.sow()
        return Ground(self.data_dir)


def built(tmp_path: Path, name: str = "seed", quads: int = 1000) -> tuple[Label, Path]:
    """A seed and its files."""
    file = tmp_path / f"{name}.nt"
    file.write_text("".join(f"<urn:{name}:{n}> <urn:p> _:b{n % 7} .\n" for n in range(quads)))
    directory = tmp_path / f"{name}-built"
    return build(list(files_of([str(file)])), directory, Phases(), keep_blank_nodes=False), directory / FILES


def seed_of(label: Label) -> Seed:
    return Seed(
        signature=bytes.fromhex(label.signature),
        quads=label.quads,
        digest=bytes.fromhex(label.digest),
        at=0,
        by="m1",
        sources=("seed.nt",),
    )


def check(ground: Ground, label: Label) -> None:
    applied = ground.store.applied
    assert (applied.index, f"{applied.signature:064x}", applied.quads) == (0, label.signature, label.quads)
    assert ground.store.recount() == (applied.signature, applied.quads)


def test_first_the_files_then_the_word(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    name = ground.store.name
    ground.take(label, files)
    assert ground.bed.kept() == [label.signature]
    assert not ground.left, "nobody has agreed on it"
    assert ground.bed.hear(seed_of(label))
    assert (ground.left, ground.health.mend) == (1, "")
    ground = ground.end()
    check(ground, label)
    assert ground.store.name != name
    assert not ground.bed.hear(seed_of(label)), "it hears it again, and has it"
    assert ground.bed.kept() == [label.signature], "for the day when it is rebuilt"
    assert {path.name for path in ground.data_dir.iterdir()} == {"quads", "seeds"}


def test_first_the_word_then_the_files(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    assert ground.bed.hear(seed_of(label))
    assert ground.bed.wanted is None
    assert "lacks the seed" in ground.health.mend
    ground.take(label, files)
    assert ground.left == 1
    check(ground.end(), label)


def test_not_agreed_on_it_changes_nothing(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground = ground.end()
    assert (ground.store.applied.quads, ground.bed.kept()) == (0, [label.signature])
    other, _ = built(tmp_path, "other")
    assert ground.bed.hear(seed_of(other))
    assert ground.bed.kept() == [], "another one was agreed on"


def test_two_imports_at_once_leave_both_until_one_is_agreed_on(tmp_path: Path) -> None:
    seeds = [built(tmp_path, name) for name in ("a", "b", "c")]
    ground = Ground(tmp_path / "w")
    for number, (label, files) in enumerate(seeds):
        ground.take(label, files)
        os.utime(ground.bed._place(label.signature), (number, number))
    assert ground.bed.kept() == sorted(label.signature for label, _ in seeds[1:])
    assert ground.bed.begin(seeds[1][0]) is None, "it is here"
    assert ground.bed.hear(seed_of(seeds[1][0]))
    check(ground.end(), seeds[1][0])


def test_the_same_seed_twice_at_once_is_one(tmp_path: Path) -> None:
    """And keeps nobody else's out."""
    (first, files), (other, others_files) = built(tmp_path, "a"), built(tmp_path, "b")
    ground = Ground(tmp_path / "w")
    ground.take(other, others_files)
    drafts = [ground.bed.begin(first) for _ in range(2)]
    for draft in drafts:
        assert draft is not None
        for piece in pieces_of(files):
            draft.feed(piece)
    for draft in drafts:
        assert draft is not None
        draft.end()
        draft.close()
    assert ground.bed.kept() == sorted([first.signature, other.signature])


def test_a_rebuilt_worker_begins_with_the_seed_again(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground.bed.hear(seed_of(label))
    ground = ground.end()
    ground.store.close()
    mend.empty(ground.data_dir)
    ground = Ground(ground.data_dir)
    assert ground.store.applied.quads == 0
    assert ground.bed.hear(seed_of(label))
    assert ground.left == 1
    check(ground.end(), label)


def test_a_kept_seed_that_the_disk_has_changed_is_not_taken_up(tmp_path: Path) -> None:
    """Its tables are the store's own: where one is damaged, so is the other."""
    label, files = built(tmp_path)
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground = ground.end()
    [table, *_] = sorted(ground.bed._place(label.signature).rglob("*.sst"))
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    assert ground.bed.hear(seed_of(label))
    ground = ground.end()
    assert (ground.store.applied.quads, ground.bed.kept()) == (0, [])
    ground.bed.hear(seed_of(label))
    ground.take(label, files)
    check(ground.end(), label)


def test_who_has_begun_takes_no_seed(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    other, _ = built(tmp_path, "other")
    ground = Ground(tmp_path / "w")
    ground.take(label, files)
    ground.bed.hear(seed_of(label))
    with pytest.raises(NotEmpty, match="begins with the seed"):
        ground.bed.begin(other)
    ground = ground.end()
    with pytest.raises(NotEmpty, match="1000 quads"):
        ground.bed.begin(other)


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label, _ = built(tmp_path)
    ground = Ground(tmp_path / "w")
    monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage)
    with pytest.raises(Unavailable, match="the seed has"):
        ground.bed.begin(label)


class _Usage:
    free = 1000


VICTIM = """
import os, sys
from pathlib import Path
from tests.integration.test_seedbed import Ground, built, seed_of

place, at = Path(sys.argv[1]), int(sys.argv[2])
label, files = built(place)
ground = Ground(place / "w")
calls = 0
def audit(event, arguments):
    # every change of a directory in the middle of it all
    global calls
    if event in {"os.rename", "os.link", "os.mkdir", "shutil.copyfile", "os.remove", "os.rmdir", "shutil.rmtree"}:
        calls += 1
        if calls == at:
            os.kill(os.getpid(), 9)
sys.addaudithook(audit)
ground.take(label, files)
ground.bed.hear(seed_of(label))
ground.end()
print("calls", calls)
"""


def test_killed_anywhere_it_has_the_empty_store_or_the_whole_seed(tmp_path: Path) -> None:
    """Then it hears of the seed again, and has it in the end."""
    seen, at = set[int](), 0
    while True:
        at += 1
        place = tmp_path / str(at)
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", VICTIM, str(place), str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        label = Label.load(place / "seed-built")
        assert label is not None
        ground = Ground(place / "w")
        quads = ground.store.applied.quads
        seen.add(quads)
        assert ground.store.recount() == (ground.store.applied.signature, quads)
        assert quads in {0, label.quads}
        if quads == 0:
            ground.bed.hear(seed_of(label))
            if not ground.left:
                ground.take(label, place / "seed-built" / FILES)
            ground = ground.end()
        check(ground, label)
        at += at // 8  # a death between two tables is like another
    assert at > 10
    assert 0 in seen


# --- its door -------------------------------------------------------------------------------------------


def test_door(tmp_path: Path) -> None:
    asyncio.run(at_the_door(tmp_path))


async def at_the_door(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground, other = Ground(tmp_path / "w"), Ground(tmp_path / "v")
    async with client_of(ground) as client, client_of(other) as another:
        nonsense = await client.put("/seed", content=b"x")
        assert (nonsense.status_code, nonsense.json()["error"]) == (400, "UserError")
        short = await client.put("/seed", content=b"".join(pieces_of(files))[:-600], headers=label.headers())
        assert (short.status_code, ground.bed.kept()) == (400, [])
        assert list((ground.data_dir / "seeds").iterdir()) == []
        for _ in range(2):
            taken = await client.put("/seed", content=b"".join(pieces_of(files)), headers=label.headers())
            assert (taken.status_code, taken.json()) == (201, {"seeds": [label.signature]})
        assert (await another.get("/seed", params={"signature": label.signature})).status_code == 404
        given = await client.get("/seed", params={"signature": label.signature})
        assert Label.of(given.headers) == label
        assert (await another.put("/seed", content=given.content, headers=label.headers())).status_code == 201
    other.bed.hear(seed_of(label))
    check(other.end(), label)


def client_of(ground: Ground) -> httpx.AsyncClient:
    door = SeedDoor(ground.bed)
    app = Starlette(
        routes=[Route("/seed", door.put, methods=["PUT"]), Route("/seed", door.get)],
        exception_handlers={QuadlogError: handle_error},
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://w")


# --- the replica ----------------------------------------------------------------------------------------


def test_a_worker_without_the_seed_neither_evaluates_nor_serves(tmp_path: Path) -> None:
    label, _ = built(tmp_path)
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    bed = Seedbed(tmp_path, worker.store, worker.replica.health, lambda: None)
    worker.replica._lacks = bed.hear
    worker.take_over()
    EffectsMirror(log, TOPICS.effects, "m1").sow(seed_of(label))
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    worker.catch_up()
    assert worker.store.applied.index == 0
    assert log.effects() == []
    beat = worker.replica.beat()
    assert (beat.state.value, beat.evaluating) == ("STARTING", False)
    assert worker.replica.full() == {TOPICS.agreed, TOPICS.effects}
    with pytest.raises(Unavailable, match="lacks the seed"):
        worker.replica.refuse_unless_seeded()


def test_what_was_evaluated_before_the_seed_came_leaves_the_store(tmp_path: Path) -> None:
    """And is evaluated again, on the seed, by whoever has it."""
    label, files = built(tmp_path)
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    bed = Seedbed(tmp_path, worker.store, worker.replica.health, lambda: None)
    worker.replica._lacks = bed.hear
    worker.take_over()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    EffectsMirror(log, TOPICS.effects, "m1").sow(seed_of(label))
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert len(log.effects()) == 1
    worker.catch_up()
    assert (worker.store.applied.index, list(worker.store.lines())) == (0, [])
    worker.close()
    ground = Ground(tmp_path / "next")
    ground.take(label, files)
    ground.bed.hear(seed_of(label))
    ground = ground.end()
    ground.store.close()
    (tmp_path / "next" / QUADS).rename(tmp_path / "w2")
    successor = Worker(tmp_path, log, "w2")
    successor.catch_up()
    successor.take_over()
    applied = successor.store.applied
    assert (applied.index, applied.quads) == (1, label.quads + 1)
    assert successor.store.recount() == (applied.signature, applied.quads)
