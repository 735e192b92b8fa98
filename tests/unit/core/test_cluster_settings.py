"""The settings that all masters share: one parser for every way in, and what counts."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from math import inf

import pytest

from quadlog.core.cluster_settings import (
    SETTINGS,
    ClusterSettings,
    after,
    canonical,
    in_force,
    of_file,
    options_of,
    parsed,
    set_by,
)
from quadlog.core.consistency import Consistency
from quadlog.core.model import AgreedSetting
from quadlog.errors import NoSuchSetting, UserError
from tests.support.settings import RIGHT, WRONG


@pytest.mark.parametrize(("name", "text", "written"), RIGHT)
def test_a_value_is_read_and_written_the_same(name: str, text: str, written: str) -> None:
    settings = ClusterSettings().changed(name, text)
    assert settings.text(canonical(name)) == written
    assert settings.changed(name, written) == settings


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_a_wrong_value_is_refused_and_says_what_to_write(name: str, text: str) -> None:
    with pytest.raises(UserError, match=f"^{name} is ") as error:
        parsed(name, text)
    assert text.strip()[:50] in str(error.value)


def test_each_setting_has_thirty_wrong_values() -> None:
    assert {name: sum(one == name for one, _ in WRONG) >= 30 for name in SETTINGS} == dict.fromkeys(
        SETTINGS, True
    )


def test_every_field_is_a_setting() -> None:
    assert {setting.field for setting in SETTINGS.values()} == set(ClusterSettings.__slots__)


def test_a_name_is_found_in_any_case_and_by_its_classic_name() -> None:
    assert canonical(" TX-Log-Max-Depth ") == "log-max-depth"
    with pytest.raises(NoSuchSetting, match="there are split-recovery, split-approval"):
        canonical("max-lag")


def test_what_an_entry_sets() -> None:
    options = options_of("Read-Consistency", "LOCAL", by="ada@ops")
    assert set_by(options, 7, 1000) == AgreedSetting("read-consistency", "local", 7, 1000, "ada@ops")
    assert set_by({}, 7, 1000) is None


@pytest.mark.parametrize(("name", "value"), [("of-tomorrow", "1"), ("split-recovery", "Strict")])
def test_what_a_later_version_sets_is_kept_and_does_not_count(name: str, value: str) -> None:
    one = set_by({"setting": name, "setting-value": value}, 7, 1000)
    assert one == AgreedSetting(name, value, 7, 1000, "")
    assert in_force(ClusterSettings(max_peer_lag=5), [one]) == ClusterSettings(max_peer_lag=5)


@pytest.mark.parametrize("value", ["off", "inf", "3601"])
def test_nobody_can_agree_to_wait_for_a_lost_master_for_ever(value: str) -> None:
    with pytest.raises(UserError, match="max-peer-lag is at most 3600 s where it is set for all masters"):
        options_of("max-peer-lag", value, by="")
    assert options_of("max-peer-lag", "3600", by="")["setting-value"] == "3600"


def test_the_newest_entry_counts_and_else_the_file() -> None:
    files = ClusterSettings(max_peer_lag=inf, log_max_size=300)
    first, second, other = (
        AgreedSetting("max-peer-lag", "5", 3, 0, ""),
        AgreedSetting("max-peer-lag", "7.5", 9, 0, ""),
        AgreedSetting("read-consistency", "eventual", 4, 0, ""),
    )
    agreed = after(after(after((), first), other), second)
    assert agreed == (second, other)
    count = in_force(files, agreed)
    assert (count.max_peer_lag, count.log_max_size, count.read_consistency) == (
        7.5,
        300,
        Consistency.EVENTUAL,
    )
    assert of_file(files, agreed) == (AgreedSetting("log-max-size", "300", 0, 0, ""),)
    assert of_file(files, ()) == (
        AgreedSetting("max-peer-lag", "off", 0, 0, ""),
        AgreedSetting("log-max-size", "300", 0, 0, ""),
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_accepted_is_written_so_that_it_is_read_again(name: str) -> None:
    """As entries, posts and `quadlog config show` have it; however long it is."""
    accepted = 0
    for size, decimals, unit in product(range(1, 20), range(5), ("", "s", "m", "h", "d")):
        text = "9" * size + ("." + "9" * decimals if decimals else "") + unit
        with suppress(UserError):
            settings = ClusterSettings().changed(name, text)
            assert ClusterSettings().changed(name, settings.text(name)) == settings, text
            accepted += 1
    assert accepted >= 7 or name in {"split-recovery", "split-approval", "read-consistency", "sync-graphs"}
