"""An alarm begins once, keeps its time, and ends with its cause."""

from __future__ import annotations

from structlog.testing import capture_logs

from quadlog.master.workers.alarms import WHAT_TO_DO, AlarmName, Alarms, Trouble


def trouble(name: AlarmName, worker: str, index: int = 1, obstacle: str = "") -> Trouble:
    return Trouble(name=name, worker=worker, index=index, reason="because", obstacle=obstacle)


def test_it_is_logged_when_it_begins_and_when_it_ends() -> None:
    alarms = Alarms()
    dead, hung = trouble(AlarmName.DEAD, "a"), trouble(AlarmName.HUNG, "b")
    with capture_logs() as logs:
        alarms.set([dead], 1_000)
        alarms.set([dead, hung], 2_000)
        alarms.set([trouble(AlarmName.DEAD, "a", index=2), hung], 3_000)
        assert [(a.trouble.worker, a.trouble.index, a.since) for a in alarms.all()] == [
            ("a", 2, 1_000),
            ("b", 1, 2_000),
        ]
        alarms.set([hung], 4_000)
        alarms.set([dead, hung], 5_000)
    assert [(one["event"], one["alarm"], one["worker"]) for one in logs] == [
        ("alarm_raised", "worker-dead", "a"),
        ("alarm_raised", "worker-hung", "b"),
        ("alarm_ended", "worker-dead", "a"),
        ("alarm_raised", "worker-dead", "a"),
    ]
    assert [a.since for a in alarms.all()] == [2_000, 5_000]


def test_every_alarm_says_what_to_do() -> None:
    assert set(WHAT_TO_DO) == set(AlarmName)
    alarms = Alarms()
    alarms.set([trouble(AlarmName.DAMAGED, "a", obstacle="no beginning")], 0)
    assert "no beginning" in alarms.all()[0].as_json()["what_to_do"]
