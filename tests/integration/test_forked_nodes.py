"""Nodes of a lab that are forks of its fork server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path
from quadlog.lab import forked

log, wanted = Path(sys.argv[1]), {"QUADLOG_NODE_ID": "x", "PATH": os.environ["PATH"]}
os.environ["QUADLOG_DC"] = "of the lab, and not of the fork"
forked.prepare()
said = {}
for arguments in (["--version"], ["master"], ["no-such-command"]):
    node = forked.ForkedNode(arguments, log=log, environment=wanted)
    while node.poll() is None:
        time.sleep(0.01)
    said[arguments[0]] = node.poll()
lab = ["lab", "up", "--dcs", "1", "--workers", "0", "--masters", "0"]
stopped = forked.ForkedNode(lab, log=log, environment=wanted)
while "lab" not in log.read_text().splitlines()[-1]:
    time.sleep(0.01)
said["session"] = os.getsid(stopped.pid) == stopped.pid != os.getsid(0)
said["input"] = os.readlink(f"/proc/{stopped.pid}/fd/0")
stopped.send_signal(signal.SIGKILL)
while stopped.poll() is None:
    time.sleep(0.01)
said["killed"] = stopped.poll()
stopped.send_signal(signal.SIGKILL)
print(json.dumps(said))
"""


def test_a_fork_is_as_a_process_of_the_command(tmp_path: Path) -> None:
    """Exit code, session, input, output and environment; and what it is sent."""
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(log)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        input="",
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said == {
        "--version": 0,
        "master": 1,
        "no-such-command": 2,
        "session": True,
        "input": "/dev/null",
        "killed": -9,
    }
    assert "quadlog 0." in log.read_text()
    assert "No such command" in log.read_text()
    [refused] = re.findall("SetupError.*", log.read_text())
    assert ("dc: Field required" in refused, "node-id" in refused) == (True, False)
