"""`quadlog lab up`: the composition of a lab, and the order in which it is stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from quadlog.errors import QuadlogError, SetupError
from quadlog.kafka.prepare import prepare
from quadlog.lab import control, forked, processes
from quadlog.lab.children import make_children
from quadlog.lab.directory import LabDirectory, check_ports, open_directory
from quadlog.lab.events import Events
from quadlog.lab.node_files import HOST
from quadlog.lab.security import prepare_security
from quadlog.lab.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from quadlog.kafka.installation import Installation
    from quadlog.lab.shape import LabRequest
    from quadlog.lab.stop import StopSignal

ORPHANS_TIMEOUT = 5.0
"""Seconds in which the processes of a lab that was just killed must end, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of the command."""

    wanted: LabRequest
    directory: Path | None
    ready: Path | None
    node_command: list[str] | None
    repository: str | None = None
    brokers: Path | None = None
    """READY file of the lab whose brokers are used."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the environment of all processes."""
    bind: str = HOST
    """Address at which brokers, masters and workers listen for clients, which are told 127.0.0.1."""
    first_port: int | None = None
    """First of consecutive ports for brokers, masters and workers."""
    attached: bool = False
    """Commands come on stdin, answers go to stdout, and the lab ends with its stdin."""


def run_lab(options: UpOptions, stop: StopSignal) -> None:
    """Run a lab until a stop is requested.

    Raises:
        QuadlogError: the lab could not start; none of its processes is left running.
        Stopped: a stop was requested before the first process was started.

    """
    events = Events()
    with (
        _place(options.directory) as path,
        open_directory(
            path,
            options.wanted,
            repository=options.repository,
            brokers=options.brokers,
            first_port=options.first_port,
        ) as directory,
    ):
        _forget_last_run(directory, options.ready)
        os.environ[processes.LAB_ID] = directory.record.lab_id  # also for the download of the jars
        if options.attached:
            control.end_with_stdin()
        installation = prepare(events.write)
        prepare_security(directory, installation.java)
        events.write(f"lab {directory.record.lab_id} in {path}: {directory.record.shape}")
        asyncio.run(_run(directory, installation, options, stop, events))


async def _run(
    directory: LabDirectory, installation: Installation, options: UpOptions, stop: StopSignal, events: Events
) -> None:
    stop.hand_over_to_loop()
    if options.node_command is None and any(
        node.kind in {"master", "worker"} for node in directory.record.nodes
    ):
        forked.prepare()
    async with httpx.AsyncClient(trust_env=False) as http:
        children = make_children(
            directory, installation, options.node_command, http, options.variables, bind=options.bind
        )
        ready = options.ready.absolute() if options.ready else None
        supervisor = Supervisor(directory, children, events, ready)
        try:
            async with AsyncExitStack() as stack:
                directory.set_control(await stack.enter_async_context(control.serve(supervisor.command)))
                if options.attached:
                    await stack.enter_async_context(control.attached(supervisor.command, stop.request))
                await _until_stopped(supervisor, stop, events)
        finally:
            await supervisor.stop_all()


async def _until_stopped(supervisor: Supervisor, stop: StopSignal, events: Events) -> None:
    """Start everything, then watch until a stop is requested; raise the error of a failure."""
    asked = asyncio.create_task(stop.wait())
    try:
        for work in (supervisor.start_all, supervisor.watch):
            task = asyncio.create_task(work())
            await asyncio.wait({asked, task}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                events.write("stopping")
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return
            await task
            events.write("everything serves; Ctrl-C or SIGTERM stops it")
    finally:
        asked.cancel()


@contextmanager
def _place(given: Path | None) -> Generator[Path]:
    """Yield the directory; a temporary one is removed at the end, but logs that an error names are kept."""
    if given is not None:
        yield given
        return
    path = Path(tempfile.mkdtemp(prefix="quadlog-lab-"))
    try:
        yield path
    except QuadlogError as error:
        raise _with_kept_logs(error, path) from error
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _with_kept_logs(error: QuadlogError, path: Path) -> QuadlogError:
    logs = path / "logs"
    if str(logs) not in str(error):
        return error
    kept = Path(tempfile.mkdtemp(prefix="quadlog-lab-logs-"))
    shutil.copytree(logs, kept, dirs_exist_ok=True)
    return type(error)(str(error).replace(str(logs), str(kept)))


def _forget_last_run(directory: LabDirectory, ready: Path | None) -> None:
    """Remove traces of the last run in this directory; check that it has ended and that its ports are free."""
    record = directory.record
    control.forget(record.control)
    if ready is not None:
        ready.unlink(missing_ok=True)  # it describes processes that have ended
    left = processes.wait_until_gone(record.lab_id, ORPHANS_TIMEOUT)
    if left:
        raise SetupError(
            f"processes {', '.join(map(str, left))} of an earlier run of the lab in {directory.path} "
            "are still there: kill them"
        )
    check_ports(directory.path, record.own_ports)
