"""The directory of a lab, which is locked while the lab runs, and keeps all that outlives it.

Its files:

    lab.json      version, shape, ports, lab id, and the socket at which the running lab receives commands
    lab.lock      locked by the running lab; contains its pid
    logs/<id>.log
    nodes/<id>/   the configuration and data of each process
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from quadlog.errors import SetupError, StateError, UserError
from quadlog.kafka.ports import free_ports, is_free
from quadlog.lab.shape import LabShape

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from quadlog.lab.shape import LabNode, LabRequest

VERSION = 1
NEEDED_MB = 500
"""Enough for a small demo; on a full disk, Kafka and RocksDB fail with less clear errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRecord:
    """Content of lab.json."""

    lab_id: str
    shape: LabShape
    ports: dict[str, int]
    control: str
    repository: str = "main"
    brokers: str = ""
    """READY file of the lab whose brokers this one uses; empty: it has its own."""

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """Processes that this lab runs itself."""
        return tuple(node for node in self.shape.nodes if not (self.brokers and node.kind == "broker"))

    @property
    def own_ports(self) -> dict[str, int]:
        """Ports of the processes that this lab runs itself."""
        names = {name for node in self.nodes for name in node.port_names}
        return {name: port for name, port in self.ports.items() if name in names}

    def to_json(self) -> str:
        """Return the text of lab.json."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> LabRecord:
        """Read the text of lab.json; raises ValueError, KeyError or TypeError if it is not valid."""
        values: dict[str, Any] = json.loads(text)
        if values.pop("version") != VERSION:
            raise ValueError("written by another version")
        values["shape"] = LabShape(**values["shape"])
        return cls(**values)


@dataclass(slots=True, kw_only=True)
class LabDirectory:
    """Directory of the lab that this process runs; `record` is stored in it."""

    path: Path
    record: LabRecord

    def log(self, node_id: str) -> Path:
        """Return the file for the output of a process."""
        return self.path / "logs" / f"{node_id}.log"

    def node(self, node_id: str) -> Path:
        """Return the directory of a process."""
        return self.path / "nodes" / node_id

    def set_control(self, address: str) -> None:
        """Record the socket at which this run receives commands."""
        self.record = replace(self.record, control=address)
        write_atomically(self.path / "lab.json", self.record.to_json())


@contextmanager
def open_directory(
    path: Path,
    wanted: LabRequest,
    *,
    repository: str | None = None,
    brokers: Path | None = None,
    first_port: int | None = None,
) -> Generator[LabDirectory]:
    """Lock `path`, and continue the lab in it or begin a new one.

    Args:
        path: path of the directory.
        wanted: processes of the lab.
        repository: name of the repository; None: as recorded, or main.
        brokers: READY file of the lab whose brokers are used; None: as recorded, or its own.
        first_port: first of consecutive ports for `LabShape.client_ports`; None: as recorded, or any.

    Raises:
        SetupError: the directory cannot be used; the message says why, and nothing was changed.

    """
    path = path.absolute()
    _check_place(path)
    with _locked(path / "lab.lock"):
        recorded = read_record(path)
        if recorded is None:
            record = _new_record(wanted.fill(LabShape()), repository or "main", brokers, first_port)
        else:
            _check_same(path, recorded, wanted)
            _check_same_ports(path, recorded, first_port)
            _check_same_log(path, recorded, repository, brokers)
            record = recorded
        write_atomically(path / "lab.json", record.to_json())
        yield LabDirectory(path=path, record=record)


def read_record(path: Path) -> LabRecord | None:
    """Return the content of lab.json in `path`, or None if the file does not exist.

    Raises:
        StateError: the file exists and cannot be read.

    """
    file = path / "lab.json"
    try:
        return LabRecord.from_json(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{file} cannot be read as a lab's record ({error}): move {path} away and begin a new lab"
        raise StateError(message) from error


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that readers see either the old text or the new one."""
    making = path.with_name(f".{path.name}.{os.getpid()}")
    making.write_text(text)
    making.replace(path)


def check_ports(path: Path, ports: dict[str, int]) -> None:
    """Check that no other program listens on a recorded port.

    Raises:
        SetupError: some ports are taken; the message names them and their owners.

    """
    taken = [f"{port} (of {name})" for name, port in sorted(ports.items()) if not is_free(port)]
    if taken:
        raise SetupError(
            f"the lab in {path} cannot start, another program listens on its port {', '.join(taken)}: "
            "stop that program, or begin a new lab in another directory"
        )


def _check_place(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in path.iterdir()}
        free = shutil.disk_usage(path).free // 1_000_000
    except OSError as error:
        message = f"{path} cannot be the lab's directory ({error.strerror}): give another --dir"
        raise SetupError(message) from error
    if names and "lab.json" not in names and names != {"lab.lock"}:
        raise SetupError(
            f"{path} is not empty and not a lab's (it has {', '.join(sorted(names)[:3])} and no lab.json): "
            "give an empty or new --dir"
        )
    if free < NEEDED_MB:
        message = f"{path} has {free} MB free, a lab needs {NEEDED_MB} MB: make room or give another --dir"
        raise SetupError(message)


def _check_same(path: Path, recorded: LabRecord, wanted: LabRequest) -> None:
    asked = wanted.fill(recorded.shape)
    if asked != recorded.shape:
        raise SetupError(
            f"the lab in {path} has the shape {recorded.shape}, asked for was {asked}: "
            "leave the options out to continue it, or give another --dir"
        )


def _check_same_log(path: Path, recorded: LabRecord, repository: str | None, brokers: Path | None) -> None:
    known = recorded.repository, recorded.brokers
    asked = repository or known[0], str(brokers.absolute()) if brokers else known[1]
    if asked != known:
        raise SetupError(
            f"the lab in {path} has the repository {known[0]} on {known[1] or 'brokers of its own'}, asked for was"
            f" {asked[0]} on {asked[1]}: leave the options out to continue it, or give another --dir"
        )


def _check_same_ports(path: Path, recorded: LabRecord, first_port: int | None) -> None:
    if first_port is None:
        return
    for name, port in _consecutive(recorded.shape, first_port).items():
        if recorded.ports[name] != port:
            raise SetupError(
                f"the lab in {path} has {name} at port {recorded.ports[name]}, --first-port {first_port} asks for"
                f" {port}: leave the option out to continue it, or give another --dir"
            )


def _consecutive(shape: LabShape, first_port: int) -> dict[str, int]:
    return {name: first_port + number for number, name in enumerate(shape.client_ports)}


def _new_record(shape: LabShape, repository: str, brokers: Path | None, first_port: int | None) -> LabRecord:
    """Return the record of a new lab.

    Raises:
        UserError: a first port, or secured brokers, were asked for with the brokers of another lab.

    """
    if brokers is not None and shape.secured:
        raise UserError("the brokers of another lab do not know the users of this one: leave --secured out")
    if first_port is not None and brokers is not None:
        raise UserError("--first-port is for a lab with brokers of its own: leave out it or --brokers")
    known = {} if first_port is None else _consecutive(shape, first_port)
    if brokers is not None:
        known = _ports_of_brokers(brokers, shape)
    return LabRecord(
        lab_id=uuid.uuid4().hex,
        shape=shape,
        ports=known | _new_ports(shape, known),
        control="",
        repository=repository,
        brokers=str(brokers.absolute()) if brokers else "",
    )


def _ports_of_brokers(file: Path, shape: LabShape) -> dict[str, int]:
    """Return the ports of another lab's brokers, and of the doors that these advertise to each data centre.

    Raises:
        SetupError: there is no such lab, or it has fewer data centres.

    """
    try:
        there: dict[str, int] = json.loads(file.read_text())["ports"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{file} is not the READY file of a running lab ({error}): give --brokers what `lab up --ready` wrote"
        raise SetupError(message) from error
    doors = [way.door for way in shape.ways if way.server.kind == "broker"]
    names = [*(name for node in shape.nodes if node.kind == "broker" for name in node.port_names), *doors]
    if missing := [name for name in names if name not in there]:
        message = f"the lab of {file} has no {missing[0]}, which {shape} needs: start its brokers with as many --dcs"
        raise SetupError(message)
    return {name: there[name] for name in names}


def _new_ports(shape: LabShape, known: Mapping[str, int]) -> dict[str, int]:
    """Choose ports for all names without one."""
    names = [name for name in shape.port_names if name not in known]
    return dict(zip(names, free_ports(len(names), besides=known.values()), strict=True))


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold the lab's lock, which is also released if this process ends, even by SIGKILL."""
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise SetupError(
                f"{path.parent} is in use by a running lab, process {holder}: "
                "stop that (SIGTERM), or give another --dir"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
