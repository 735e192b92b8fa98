"""The wheel has all that a user needs: built, installed into an empty environment, and run there."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import quadlog

ROOT = Path(__file__).parents[2]
TOPS = ("quadlog", "producers", "consumers", "schemas")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
PACKAGES_HERE = next(path for path in sys.path if path.endswith("site-packages"))
ENCODED = """
import json, quadlog, schemas
from quadlog import codec
from quadlog.core.model import LogPosition
from quadlog.core.records import Cut
cut = Cut(epoch=1, lineage=bytes(32), index=0, chain=bytes(32))
count = len({schemas.text(one) for one in schemas.IDS})
print(json.dumps([quadlog.__file__, count, codec.decode(codec.encode(cut)) == cut]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without a network."""
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(target), str(ROOT)], check=True
    )
    [built] = target.glob("quadlog-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its commands: an environment with the wheel, which finds the dependencies in the one of the tests."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    subprocess.run(
        [*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], check=True
    )
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{PACKAGES_HERE}\n")
    return directory / "bin"


def test_it_has_every_module_and_schema(wheel: Path) -> None:
    there = {
        str(path.relative_to(ROOT)) for top in TOPS for path in (ROOT / top).rglob("*") if path.is_file()
    }
    wanted = {name for name in there if not name.endswith(".pyc")}
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert not wanted - names
    assert not [
        name
        for name in names
        if name.split("/")[0] not in {*TOPS, f"quadlog-{quadlog.__version__}.dist-info"}
    ]


def test_its_command_runs(environment: Path, tmp_path: Path) -> None:
    asked = [str(environment / "quadlog"), "--version"]
    told = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert told.strip() == f"quadlog {quadlog.__version__}"
    for command in ("master", "worker", "lab", "compact"):
        subprocess.run([*asked[:1], command, "--help"], cwd=tmp_path, check=True, capture_output=True)


def test_records_are_written_and_read_with_its_schemas(environment: Path, tmp_path: Path) -> None:
    python = [str(environment / "python"), "-I", "-c", ENCODED]
    told = subprocess.run(python, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    where, schemas, is_equal = json.loads(told)
    assert Path(where).is_relative_to(environment.parent)
    assert schemas >= 11
    assert is_equal


def test_a_master_refuses_settings_as_the_checkout_does(environment: Path, tmp_path: Path) -> None:
    config = tmp_path / "master.toml"
    config.write_text('node-id = "m1"\nunknown-setting = 1\n')
    command = [str(environment / "quadlog"), "master", "--config", str(config)]
    ended = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode
    assert "unknown-setting" in ended.stdout + ended.stderr
