"""A master sets a damaged store aside and begins as another incarnation, unless it is the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog import set_aside
from quadlog.errors import StoreDamaged
from quadlog.master.recovery import startup_checks
from quadlog.masterstore.store import MasterStore
from quadlog.set_aside import stores_set_aside
from quadlog.settings import MasterSettings
from tests.support.workers.damaged import (
    harm_all,
    remove_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def master_settings(data: Path, *, others: bool = True) -> MasterSettings:
    peer = {"id": "dc2-m1", "dc": "dc2", "url": "http://127.0.0.1:1", "kafka": "127.0.0.1:1"}
    return MasterSettings.model_validate(
        {
            "node_id": "dc1-m1",
            "dc": "dc1",
            "kafka": "127.0.0.1:1",
            "data_dir": data,
            "port": 1,
            "master_url": "http://127.0.0.1:1",
            "peer": {"1": peer} if others else {},
        }
    )


def master_store(data: Path) -> tuple[Path, bytes]:
    """In files, and its incarnation."""
    path = data / startup_checks.STORE
    store = MasterStore(path)
    incarnation = store.incarnation
    store.close()
    MasterStore(path).close()
    return path, incarnation


MASTER_HARMS: dict[str, Callable[[Path], object]] = {
    "CURRENT written over": lambda path: (path / "CURRENT").write_text("xx"),
    "the manifest": lambda path: harm_all(path, "MANIFEST-*"),
    "the manifest gone": lambda path: remove_all(path, "MANIFEST-*"),
    "tables gone": lambda path: remove_all(path, "*.sst"),
    "met while it ran": lambda path: startup_checks.note_damage(
        master_settings(path.parent), "Corruption: block checksum mismatch in 000014.sst"
    ),
}


@pytest.mark.parametrize("name", MASTER_HARMS)
def test_a_master_sets_it_aside_and_is_another_incarnation(tmp_path: Path, name: str) -> None:
    path, incarnation = master_store(tmp_path)
    MASTER_HARMS[name](path)
    again = startup_checks._opened(master_settings(tmp_path), path, lambda: incarnation)
    assert again.incarnation > incarnation
    again.close()
    [kept] = stores_set_aside(path)
    assert (kept / set_aside.SAID).exists()
    startup_checks._opened(
        master_settings(tmp_path), path, lambda: None
    ).close()  # and is not set aside again
    assert stores_set_aside(path) == [kept]


def test_the_only_master_there_is_keeps_it(tmp_path: Path) -> None:
    path, _ = master_store(tmp_path)
    (path / "CURRENT").write_text("xx")
    before = sorted(file.name for file in path.iterdir())
    with pytest.raises(StoreDamaged, match="no other data centre knows what this master promised"):
        startup_checks._opened(master_settings(tmp_path, others=False), path, lambda: None)
    assert sorted(file.name for file in path.iterdir() if not file.name.startswith("LOG")) == [
        name for name in before if not name.startswith("LOG")
    ]


def test_what_ended_a_master_otherwise_leaves_its_store(tmp_path: Path) -> None:
    startup_checks.note_damage(master_settings(tmp_path), "no Kafka broker answers")
    startup_checks.note_damage(master_settings(tmp_path), "")
    assert not list(tmp_path.iterdir())
