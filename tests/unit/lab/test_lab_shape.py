"""Labs with data centres that are to be added later, and with witnesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.errors import UserError
from quadlog.lab.directory import LabDirectory, LabRecord
from quadlog.lab.node_files import write_settings
from quadlog.lab.shape import LabRequest, LabShape
from quadlog.master.topics.sites import Sites
from quadlog.settings import MasterSettings, WorkerSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_all_settings_say_who_is_added_later(tmp_path: Path) -> None:
    shape = LabRequest(dcs=3, workers=1, outside=1).fill(LabShape())
    assert str(shape) == "--dcs 3 --masters 1 --workers 1 --outside 1"
    names = [name for node in shape.nodes for name in node.port_names]
    ports = {name: number for number, name in enumerate(names, start=20_000)}
    record = LabRecord(lab_id="x", shape=shape, ports=ports, control="")
    assert LabRecord.from_json(record.to_json()) == record
    directory, votes = LabDirectory(path=tmp_path, record=record), dict[str, dict[str, bool]]()
    for node in shape.nodes:
        if node.kind == "master":
            settings = MasterSettings.load(_written(directory, node.id), {})
            others = {peer.id: peer.voting for peer in settings.peer.values()}
            votes[node.id] = others | {settings.node_id: settings.voting}
        if node.kind == "worker":
            WorkerSettings.load(_written(directory, node.id), {})
    voting = {"dc1-m1": True, "dc2-m1": True, "dc3-m1": False}
    assert votes == dict.fromkeys(voting, voting)


def test_all_settings_say_who_is_a_witness(tmp_path: Path) -> None:
    """It has no workers."""
    shape = LabRequest(dcs=3, workers=1, read_only=1).fill(LabShape())
    assert str(shape) == "--dcs 3 --masters 1 --workers 1 --read-only 1"
    assert [node.id for node in shape.nodes if node.kind == "worker"] == ["dc1-w1", "dc2-w1"]
    names = [name for node in shape.nodes for name in node.port_names]
    ports = {name: number for number, name in enumerate(names, start=20_000)}
    record = LabRecord(lab_id="x", shape=shape, ports=ports, control="")
    assert LabRecord.from_json(record.to_json()) == record
    directory = LabDirectory(path=tmp_path, record=record)
    sites = [Sites(MasterSettings.load(_written(directory, f"dc{n}-m1"), {})) for n in (1, 2, 3)]
    assert [site.witnesses for site in sites] == [{"dc3"}] * 3


def test_witnesses_alone_cannot_be() -> None:
    with pytest.raises(UserError, match="--read-only"):
        LabRequest(dcs=2, read_only=2).fill(LabShape())


def _written(directory: LabDirectory, node_id: str) -> Path:
    node = next(node for node in directory.record.shape.nodes if node.id == node_id)
    write_settings(directory, node)
    return directory.node(node_id) / f"{node.kind}.toml"


@pytest.mark.parametrize(
    "wanted", [LabRequest(outside=3), LabRequest(dcs=1, outside=1), LabRequest(masters=2, outside=1)]
)
def test_outside_that_cannot_be(wanted: LabRequest) -> None:
    with pytest.raises(UserError, match="--outside"):
        wanted.fill(LabShape())
