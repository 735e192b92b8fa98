"""What masters save in bad weather, on real stores: see `stored`.  A failing seed replays exactly."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from quadlog.masterstore.store import MasterStore
from tests.support.agreement.sim import limits_of
from tests.support.agreement.weather import TWINS
from tests.support.workers.stored import weather

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import WriteBatch


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here, machines do not."""

    def write(store: MasterStore, batch: WriteBatch) -> None:
        store._db.write(batch)

    monkeypatch.setattr(MasterStore, "_write", write)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was adopted takes many rounds to get to its place."""
    monkeypatch.setattr("quadlog.masterstore.staged_log.PIECE_ENTRIES", 2)


@pytest.mark.parametrize(
    "first", [0, TWINS, *(pytest.param(first, marks=pytest.mark.soak) for first in range(10, 60, 10))]
)
def test_a_store_remembers_what_the_agreement_asks_it_to(tmp_path: Path, first: int) -> None:
    covered = Counter[str]()
    for seed in range(first, first + 10):
        try:
            weather(seed, tmp_path, covered, limits_of(seed)).run()
        except BaseException as error:
            error.add_note(f"weather({seed}, tmp_path, Counter(), limits_of({seed})).run()")
            raise
    for what in (
        *("cut", "extended", "submitted anew", "half adopted", "half moved"),
        *("read on", "begun", "restarts", "lost disks"),
    ):
        assert covered[what], f"nothing of this happened: {what}"
