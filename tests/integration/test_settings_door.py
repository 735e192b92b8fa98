"""Settings that all masters share, at one master: what is listed, and what is refused before it is logged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog.core.cluster_settings import ClusterSettings, canonical, parsed
from quadlog.core.model import AgreedSetting, HardState, first_view
from quadlog.errors import SetupError, UserError
from quadlog.settings import MasterSettings
from tests.support.masters.doors import VOTING, Door, door, refusal
from tests.support.settings import RIGHT, WRONG

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.masterstore.store import MasterStore

TEXT = {"Content-Type": "text/plain"}
AGREED = AgreedSetting("max-peer-lag", "5", 7, 1_000_000_000_007, "ada@ops")


@pytest.fixture
def one(store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Door:
    """Of a master that is a peer, and that has a setting by an entry."""
    standing = HardState(view=first_view(VOTING), settings=(AGREED,))
    return door(store, monkeypatch, tmp_path, standing)


def test_each_value_is_listed_with_where_it_comes_from(one: Door) -> None:
    said = one.ask("GET", "/cluster/settings").json()
    listed = {entry["name"]: entry for entry in said["settings"]}
    assert listed["max-peer-lag"] == one.ask("GET", "/cluster/settings/Max-Peer-Lag").json()
    assert listed["max-peer-lag"] == {
        "name": "max-peer-lag",
        "value": "5",
        "source": "agreed",
        "index": 7,
        "at": "2001-09-09T01:46:40.007Z",
        "by": "ada@ops",
        "file": None,
        "default": "20",
    }
    other = listed["split-recovery"]
    assert (other["value"], other["source"], other["index"], other["by"]) == ("Quorum", "default", None, None)
    assert listed["log-max-size"]["value"] == "off"


def test_what_is_no_setting(one: Door) -> None:
    for method in ("GET", "PUT"):
        answer = one.ask(method, "/cluster/settings/idle-round", content=b"1" * (method == "PUT"))
        assert (answer.status_code, answer.json()["error"]) == (404, "NoSuchSetting")
        assert "there are split-recovery, split-approval" in answer.json()["message"]
    assert one.ask("PUT", "/cluster/settings/max-peer-lag?now=1", content=b"5").status_code == 400
    assert not one.broker.payloads


@pytest.mark.parametrize("name", dict(WRONG))
def test_wrong_values_are_refused_as_in_a_file(one: Door, tmp_path: Path, name: str) -> None:
    file = tmp_path / "master.toml"
    for text in (text for known, text in WRONG if known == name):
        with pytest.raises(UserError) as refused:
            parsed(name, text)
        for body, headers in ((text.encode(), TEXT), (None, {})):
            rest = {"content": body, "headers": headers} if body is not None else {"json": {"value": text}}
            answer = one.ask("PUT", f"/cluster/settings/{name}", **rest)
            assert (answer.status_code, answer.json()["message"]) == (400, str(refused.value)), text
            assert answer.json()["definite"]
        file.write_text(f"{name} = '''{text}'''\n")
        with pytest.raises(SetupError, match=re.escape(f"{name}: {refused.value}")):
            MasterSettings.load(file, {})
        with pytest.raises(SetupError, match=re.escape(f"{name}: {refused.value}")):
            MasterSettings.load(file, {f"QUADLOG_{name.upper().replace('-', '_')}": text})
    assert not one.broker.payloads


def test_classic_names_in_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "master.toml"
    base = 'node-id = "m1"\ndc = "dc1"\ndata-dir = "data"\nport = 7001\nkafka = "b:1"\nmaster-url = "http://m1"\n'
    file.write_text(base + "tx-log-max-size = 1000\n")
    assert MasterSettings.load(file, {}).log_max_size == 1000
    assert MasterSettings.load(file, {"QUADLOG_TX_LOG_MAX_DEPTH": "2h"}).log_max_depth == 7200
    file.write_text(base + "tx-log-max-size = 1000\nlog-max-size = 2000\n")
    with pytest.raises(SetupError, match=r"tx-log-max-size and log-max-size in .* are one setting"):
        MasterSettings.load(file, {})


@pytest.mark.parametrize(("name", "text", "written"), RIGHT)
def test_right_values_count_in_a_file(tmp_path: Path, name: str, text: str, written: str) -> None:
    file = tmp_path / "master.toml"
    base = 'node-id = "m1"\ndc = "dc1"\ndata-dir = "data"\nport = 7001\nkafka = "b:1"\nmaster-url = "http://m1"\n'
    file.write_text(f'{base}{name.lower()} = "{text}"\n')
    settings = MasterSettings.load(file, {})
    assert settings.cluster == ClusterSettings().changed(name, text)
    assert settings.cluster.text(canonical(name)) == written


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "or the value"),
        (b"{}", "or the value"),
        (b'{"value": true}', "a value is text or a number, not true"),
        (b'{"value": null}', "a value is text or a number, not null"),
        (b'{"value": [5]}', "a value is text or a number, not [5]"),
        (b'{"value": 0}', "max-peer-lag is a number of seconds above 0, or off, not '0'"),
        (b'{"value": 2}', "has to be at least 3 times idle-round"),
        (b'{"value": "off"}', "is at most 3600 s where it is set for all masters"),
    ],
)
def test_bodies_that_are_refused(one: Door, body: bytes, words: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = one.ask("PUT", "/cluster/settings/max-peer-lag", content=body, headers=headers)
    assert answer.status_code == 400
    assert words in answer.json()["message"]
    assert (
        one.ask(
            "PUT", "/cluster/settings/max-peer-lag", content=b"5", headers={"Content-Type": "text/xml"}
        ).status_code
        == 415
    )
    assert not one.broker.payloads


def test_the_strategy_stays_while_data_centres_are_apart(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = replace(first_view(VOTING), epoch=2, members=("m1",))
    of = door(store, monkeypatch, tmp_path, HardState(view=view))
    answer = of.ask("PUT", "/cluster/settings/split-recovery", content=b"Smart", headers=TEXT)
    assert re.match(refusal(409, "SettingStays", "m2 is apart: split-recovery stays Quorum"), of.told(answer))


def test_a_witness_lists_and_changes_nothing(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = door(store, monkeypatch, tmp_path, roles={"m1": "read-only"})
    assert of.ask("GET", "/cluster/settings").status_code == 200
    answer = of.ask("PUT", "/cluster/settings/max-peer-lag", content=b"5", headers=TEXT)
    assert (answer.status_code, answer.json()["error"]) == (503, "ReadOnly")
    assert not of.broker.payloads
