"""Settings: the file, the environment over it, and errors that say which key is wrong."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import pytest

from quadlog.errors import SetupError, UserError
from quadlog.lab.node_files import variables
from quadlog.master.topics.sites import Sites
from quadlog.settings import NO_LONGER, MasterSettings, Role, WorkerSettings
from quadlog.settings.environment import OF_PROGRAMS
from quadlog.settings.units import MIB

MASTER = """
node-id = "dc1-m1"
dc = "dc1"
data-dir = "data"
port = 7001
kafka = "broker:9092"
master-url = "http://here:7001"

[peer.1]
id = "dc2-m1"
dc = "dc2"
url = "http://there:7001"
kafka = "there:9092"
"""


def load(tmp_path: Path, text: str = MASTER, **environ: str) -> MasterSettings:
    file = tmp_path / "master.toml"
    file.write_text(text, encoding="utf-8")
    return MasterSettings.load(file, environ)


def test_the_classic_keys_are_read(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.node_id, settings.dc, settings.repository, settings.port) == (
        "dc1-m1",
        "dc1",
        "main",
        7001,
    )
    assert settings.data_dir == Path("data")
    assert settings.max_transaction_size == 64 * MIB
    assert [(name, peer.id, peer.kafka) for name, peer in settings.peer.items()] == [
        ("1", "dc2-m1", "there:9092")
    ]


@pytest.mark.parametrize("name", list(NO_LONGER))
def test_what_is_no_longer_supported_says_what_to_do(tmp_path: Path, name: str) -> None:
    """In a master's settings as in a worker's, in the file and in the environment."""
    with pytest.raises(SetupError, match=f"{name} is no longer supported: .*take it out of .*master.toml"):
        load(tmp_path, f"{name} = 7\n{MASTER}")
    file = tmp_path / "worker.toml"
    file.write_text("", encoding="utf-8")
    with pytest.raises(SetupError, match=f"{name} is no longer supported: .*see catch-up"):
        WorkerSettings.load(file, {f"QUADLOG_{name.upper().replace('-', '_')}": "7"})


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("45s", 45.0), ("30m", 1800.0), ("1.5h", 5400.0), ("7d", 604800.0), ("off", None)],
)
def test_the_logs_depth_has_a_unit(tmp_path: Path, said: str, seconds: float | None) -> None:
    settings = load(tmp_path, QUADLOG_LOG_MAX_DEPTH=said, QUADLOG_LOG_MAX_SIZE="off")
    assert (settings.log_max_depth, settings.log_max_size) == (seconds, None)


@pytest.mark.parametrize("said", ["7", "7 days", "-1d", "0s", ""])
def test_a_depth_that_may_mean_anything_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(SetupError, match=r"log-max-depth is a duration with a unit, as 7d"):
        load(tmp_path, f'log-max-depth = "{said}"\n{MASTER}')
    with pytest.raises(SetupError, match=r"log-max-depth is a duration"):
        load(tmp_path, f"log-max-depth = 7\n{MASTER}")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("log-max-size = 199", "log-max-size is a number of entries, 200 or more"),
        ('log-max-size = "much"', "log-max-size is a number of entries"),
        ("log-hard-max-size = 5000", "set log-max-size or log-max-depth, too"),
        ('log-archive = "archive"', "log-archive says where the log goes: set log-max-size"),
        ("log-max-size = 5000\nlog-hard-max-size = 4000", "must be greater than log-max-size"),
        ('log-max-depth = "7d"\nrole = "muted"\nvoting = false', "a muted master's topics are not shortened"),
    ],
)
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, said: str, wrong: str) -> None:
    with pytest.raises(SetupError, match=wrong):
        load(tmp_path, f"{said}\n{MASTER}")


def test_the_environment_wins(tmp_path: Path) -> None:
    text = 'request-timeout = 5\nlog-level = "debug"\n' + MASTER
    assert load(tmp_path, text).request_timeout == 5
    settings = load(
        tmp_path, text, QUADLOG_REQUEST_TIMEOUT="1.5", QUADLOG_PORT="9", QUADLOG_LAB_ID="of nobody"
    )
    assert (settings.request_timeout, settings.port, settings.log_level) == (1.5, 9, "debug")


def test_what_is_wrong_is_named_with_its_file(tmp_path: Path) -> None:
    for text, said in (
        (MASTER.replace("port = 7001", "port = 70000"), "port: "),
        (MASTER.replace("port = 7001", ""), "port: Field required"),
        (MASTER.replace('kafka = "there:9092"', ""), "peer.1.kafka: Field required"),
        ("max-transaktion-size = 7\n" + MASTER, "max-transaktion-size: Extra inputs"),
        ("max-transaction-size = 7\n" + MASTER, "max-transaction-size: "),
        ("request-timeout = 0\n" + MASTER, "request-timeout: "),
        ('log-level = "loud"\n' + MASTER, "log-level: Input should be 'debug', 'info', 'warning' or 'error'"),
        (MASTER.replace("dc2-m1", "dc1-m1"), "an id of its own"),
        (MASTER + "\nurls = 7\n", "peer.1.urls: Extra inputs"),
    ):
        with pytest.raises(SetupError) as error:
            load(tmp_path, text)
        assert "master.toml" in str(error.value)
        assert said in str(error.value)
    with pytest.raises(SetupError, match="port: "):
        load(tmp_path, QUADLOG_PORT="many")


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"dc: .*; .*kafka: "):
        load(tmp_path, MASTER.replace('dc = "dc1"', "").replace('kafka = "broker:9092"', ""))


@pytest.mark.parametrize(
    ("lag", "idle"), [("2.9", "1"), ("0.5", "1"), ("30", "10.1"), ("nan", "1"), ("-inf", "1")]
)
def test_nobody_is_given_up_before_another_way_is_tried(tmp_path: Path, lag: str, idle: str) -> None:
    with pytest.raises(SetupError, match=r"max-peer-lag") as error:
        load(tmp_path, QUADLOG_MAX_PEER_LAG=lag, QUADLOG_IDLE_ROUND=idle)
    if lag == "2.9":
        assert "Set it to 5 or more, or to off" in str(error.value)


@pytest.mark.parametrize(("lag", "idle"), [("3", "1"), ("30", "10"), ("inf", "60")])
def test_who_is_silent_may_be_given_up(tmp_path: Path, lag: str, idle: str) -> None:
    assert load(tmp_path).max_peer_lag == 20
    assert load(tmp_path, QUADLOG_MAX_PEER_LAG="off").max_peer_lag == inf
    settings = load(tmp_path, QUADLOG_MAX_PEER_LAG=lag, QUADLOG_IDLE_ROUND=idle)
    assert settings.max_peer_lag == float(lag)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        MasterSettings.load(tmp_path / "none.toml", {})
    with pytest.raises(SetupError, match="cannot be read"):
        MasterSettings.load(tmp_path, {})
    with pytest.raises(SetupError, match="cannot be read"):
        load(tmp_path, "node-id = ")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "master.toml"
    file.write_bytes(b'node-id = "\xff"')
    with pytest.raises(SetupError, match="cannot be read"):
        MasterSettings.load(file, {})


def test_a_worker_needs_its_own_address(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    text = MASTER.split("[peer.1]", maxsplit=1)[0].replace("master-url", "worker-url")
    file.write_text(text)
    settings = WorkerSettings.load(file, {"QUADLOG_HEARTBEAT": "0.1"})
    assert (settings.worker_url, settings.heartbeat) == ("http://here:7001", 0.1)
    file.write_text(MASTER)
    with pytest.raises(SetupError, match="worker-url: Field required"):
        WorkerSettings.load(file, {})


def worker(tmp_path: Path, text: str, **environ: str) -> WorkerSettings:
    file = tmp_path / "worker.toml"
    file.write_text(text + MASTER.split("[peer.1]", maxsplit=1)[0].replace("master-url", "worker-url"))
    return WorkerSettings.load(file, environ)


def test_what_may_be_loaded_is_a_list_and_empty_by_default(tmp_path: Path) -> None:
    assert worker(tmp_path, "").load_from == ()
    here, there = "http://here:8080/", "https://there/data/"
    assert worker(tmp_path, f'load-from = ["{here}", "{there}"]\n').load_from == (here, there)
    both = ("http://a/sparql", "http://b/sparql?x")
    assert worker(tmp_path, "", QUADLOG_SERVICE_ENDPOINTS=" ".join(both)).service_endpoints == both
    assert worker(tmp_path, "", QUADLOG_LOAD_FROM=f" {here} {there}").load_from == (here, there)


@pytest.mark.parametrize("beginning", [
    "http://here", "http://here/data", "ftp://here/", "here/", "http:///", "*", "http://a@here/", "http://here/?q=/",
    "http://here\\\\x/",
])  # fmt: skip
def test_what_may_be_loaded_ends_where_a_name_ends(tmp_path: Path, beginning: str) -> None:
    with pytest.raises(SetupError, match="load-from"):
        worker(tmp_path, f'load-from = ["http://here/", "{beginning}"]\n')


def test_settings_do_not_change(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(tmp_path).port = 1


@pytest.mark.parametrize("setting", ["QUADLOG_LOG_LEVEL", "PATH=/tmp", "QUADLOG_NODE_ID=dc1-m9", "=x"])
def test_what_a_lab_process_cannot_be_started_with_is_refused(setting: str) -> None:
    with pytest.raises(UserError, match="--set takes NAME=VALUE"):
        variables([setting])


FOURTH = """
[peer.2]
id = "dc3-m1"
dc = "dc3"
url = "http://new:7001"
kafka = "new:9092"
voting = false
"""


def test_who_is_added_later_is_named_before(tmp_path: Path) -> None:
    settings = load(tmp_path, MASTER + FOURTH)
    assert settings.voting
    assert [peer.voting for peer in settings.peer.values()] == [True, False]
    sites = Sites(settings)
    assert (sites.first_peers, sites.others) == ({"dc1-m1": "dc1", "dc2-m1": "dc2"}, ["dc2", "dc3"])
    own = Sites(load(tmp_path, "voting = false\n" + MASTER))
    assert (own.first_peers, own.dc_of["dc1-m1"]) == ({"dc2-m1": "dc2"}, "dc1")
    assert not load(tmp_path, QUADLOG_VOTING="false").voting
    with pytest.raises(
        SetupError, match="dc4-m1 is a peer by the agreed log, and these settings do not name it"
    ):
        assert own.dc_of["dc4-m1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("voting = false\n" + MASTER + "voting = false\n", "voting is false for all masters"),
        (MASTER + FOURTH.replace('dc = "dc3"', 'dc = "dc1"'), "dc1 has 2 masters"),
        (MASTER + FOURTH.replace("false", '"perhaps"'), "peer.2.voting: "),
    ],
)
def test_votes_that_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        load(tmp_path, text)


WITNESS = FOURTH.replace("voting = false", 'role = "Read-Only"')


def test_all_know_which_data_centres_evaluate_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path, MASTER + WITNESS)
    assert (settings.role, settings.peer["2"].role) == (Role.READ_WRITE, Role.READ_ONLY)
    sites = Sites(settings)
    assert sites.witnesses == {"dc3"}
    assert {*sites.first_peers} == {"dc1-m1", "dc2-m1", "dc3-m1"}
    assert load(tmp_path, QUADLOG_ROLE=" READ-ONLY").role is Role.READ_ONLY
    assert Sites(load(tmp_path, 'role = "read-write"\n' + MASTER)).witnesses == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('role = "deaf"\n' + MASTER, "role: Input should be 'read-write', 'read-only' or 'muted'"),
        (MASTER + WITNESS.replace("Only", "Once"), "peer.2.role: Input should be"),
        ("role = 1\n" + MASTER, "role: Input should be"),
        ('role = "read-only"\n' + MASTER + 'role = "read-only"\n', "read-only for all masters"),
        (
            'role = "read-only"\n' + MASTER + "voting = false\n",
            "read-only for all masters that the log begins with",
        ),
        (MASTER + WITNESS.replace('dc = "dc3"', 'dc = "dc1"'), "read-only for one master of dc1"),
    ],
)
def test_roles_that_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        load(tmp_path, text)


MUTED = 'role = "muted"\nvoting = false\n'


def test_a_muted_master_follows_the_first_that_is_read_write(tmp_path: Path) -> None:
    assert load(tmp_path, MUTED + MASTER).source == "dc2"
    assert load(tmp_path, MUTED + MASTER + FOURTH).source == "dc2"
    assert load(tmp_path, MUTED + 'follow = "dc3"\n' + MASTER + FOURTH).source == "dc3"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('role = "muted"\n' + MASTER, "role is muted for dc1-m1, and it votes"),
        (MASTER + 'role = "muted"\n', "role is muted for dc2-m1, and it votes"),
        ('follow = "dc2"\n' + MASTER, "follow is dc2: only a muted master follows"),
        (MUTED + 'follow = "dc9"\n' + MASTER, r"follow is dc9: .*\(dc2\)"),
        (MUTED + 'follow = "dc1"\n' + MASTER, "follow is dc1"),
    ],
)
def test_muted_masters_that_cannot_be(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(SetupError, match=wrong):
        load(tmp_path, text)


def test_nobody_reads_or_counts_a_muted_peer(tmp_path: Path) -> None:
    sites = Sites(load(tmp_path, MASTER + FOURTH + 'role = "muted"\n'))
    assert (sites.others, list(sites.dc_of), list(sites.topics)) == (
        ["dc2"],
        ["dc1-m1", "dc2-m1"],
        ["dc1", "dc2"],
    )


FULL = {
    "QUADLOG_NODE_ID": "dc1-m1",
    "QUADLOG_DC": "dc1",
    "QUADLOG_DATA_DIR": "/data",
    "QUADLOG_PORT": "7001",
    "QUADLOG_KAFKA": "kafka-dc1:9092",
    "QUADLOG_MASTER_URL": "http://dc1-master:7001",
    "QUADLOG_PEER__2__ID": "dc2-m1",
    "QUADLOG_PEER__2__DC": "dc2",
    "QUADLOG_PEER__2__URL": "http://dc2-master:7001",
    "QUADLOG_PEER__2__KAFKA": "kafka-dc2:9092",
}
WORKER = FULL | {"QUADLOG_WORKER_URL": "http://dc1-worker:7002"}


def test_the_environment_has_all_settings(tmp_path: Path) -> None:
    """Also peers; what concerns workers alone is nothing to a master, and the other way round."""
    others = {"QUADLOG_QUERY_ROWS": "7", "QUADLOG_CACHE": "/cache", "HOME": "/"}
    settings = MasterSettings.load(None, FULL | others)
    assert (settings.node_id, settings.port, settings.data_dir) == ("dc1-m1", 7001, Path("/data"))
    assert [(peer.id, peer.kafka) for peer in settings.peer.values()] == [("dc2-m1", "kafka-dc2:9092")]
    worker = WorkerSettings.load(None, WORKER | {"QUADLOG_MAX_PEER_LAG": "soon"})
    assert worker.worker_url == "http://dc1-worker:7002"
    text = '[peer.2]\nid = "dc2-m9"\nvoting = false\n[peer.3]\nid = "dc3-m1"\ndc = "dc3"\n'
    more = {f"QUADLOG_PEER__3__{name}": "http://dc3" for name in ("URL", "KAFKA")}
    found = load(tmp_path, f'node-id = "dc1-m9"\n{text}', **FULL, **more)
    assert found.node_id == "dc1-m1"
    assert {key: (peer.id, peer.voting) for key, peer in found.peer.items()} == {
        "2": ("dc2-m1", False),
        "3": ("dc3-m1", True),
    }


def test_a_variable_may_name_a_file_with_the_value(tmp_path: Path) -> None:
    """As secrets come into containers."""
    secret = tmp_path / "kafka"
    secret.write_text(" kafka-dc1:9093\n")
    without = {name: value for name, value in FULL.items() if not name.endswith("KAFKA")}
    files = {f"QUADLOG_{name}_FILE": str(secret) for name in ("KAFKA", "PEER__2__KAFKA")}
    found = MasterSettings.load(None, without | files)
    assert (found.kafka, found.peer["2"].kafka) == ("kafka-dc1:9093", "kafka-dc1:9093")
    with pytest.raises(SetupError, match="QUADLOG_KAFKA_FILE and another variable are one setting"):
        MasterSettings.load(None, FULL | {"QUADLOG_KAFKA_FILE": str(secret)})
    with pytest.raises(SetupError, match=r"QUADLOG_KAFKA_FILE: .*gone cannot be read"):
        MasterSettings.load(None, without | {"QUADLOG_KAFKA_FILE": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("QUADLOG_MAX_PEER_LAGS", "QUADLOG_MAX_PEER_LAGS is no setting; do you mean QUADLOG_MAX_PEER_LAG?"),
        ("QUADLOG_PEER__2__ULR", "QUADLOG_PEER__2__ULR is no setting; do you mean QUADLOG_PEER__1__URL?"),
        ("QUADLOG_PEER_2_URL", "QUADLOG_PEER_2_URL is no setting; do you mean QUADLOG_PEER__1__URL?"),
        ("QUADLOG_PEER", "QUADLOG_PEER is no setting"),
        ("QUADLOG_HOBBY", "QUADLOG_HOBBY is no setting"),
        ("QUADLOG_", "QUADLOG_ is no setting"),
    ],
)
@pytest.mark.parametrize("kind", [MasterSettings, WorkerSettings])
def test_a_variable_that_is_no_setting_is_an_error(
    kind: type[MasterSettings | WorkerSettings], name: str, said: str
) -> None:
    with pytest.raises(SetupError) as error:
        kind.load(None, WORKER | {name: "5"})
    assert str(error.value) == said


def test_all_wrong_variables_are_named_at_once_and_what_is_missing_too() -> None:
    with pytest.raises(SetupError, match="QUADLOG_A is no setting; QUADLOG_B is no setting"):
        MasterSettings.load(None, {"QUADLOG_A": "", "QUADLOG_B": ""})
    with pytest.raises(SetupError, match="settings in QUADLOG_… variables are not usable: node-id: Field"):
        MasterSettings.load(None, {})


def test_variables_of_compose_are_no_mistake() -> None:
    """Whoever exports one for compose may start a lab from the same shell."""
    root = Path(__file__).parents[3]
    named = {
        name
        for file in root.glob("compose*.yaml")
        for name in re.findall(r"\$\{(QUADLOG_\w+)", file.read_text())
    }
    assert len(named) >= 5
    assert named <= OF_PROGRAMS
