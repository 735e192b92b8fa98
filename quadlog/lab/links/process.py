"""Composition root of the links process: starts a relay from its wiring.

    python -m quadlog.lab.links WIRING

The state is kept in a file, so that a process that was killed restarts with the same cuts.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from quadlog.errors import SetupError, StateError
from quadlog.lab.directory import write_atomically
from quadlog.lab.links.commands import Commands
from quadlog.lab.links.loop import SocketLoop
from quadlog.lab.links.relay import LinkRelay
from quadlog.lab.links.state import LinksState
from quadlog.lab.links.wiring import Wiring
from quadlog.logs import start_logging

if TYPE_CHECKING:
    from collections.abc import Sequence

log = structlog.get_logger()


def run(arguments: Sequence[str]) -> None:
    """Serve until the process ends.

    Raises:
        SetupError: a port is taken.
        StateError: the saved state cannot be read.

    """
    start_logging("info")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses the maximum that it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    [file] = arguments
    wiring = Wiring.read(Path(file))
    loop = SocketLoop()
    try:
        relay = LinkRelay(loop, wiring.doors, _saved_state(wiring))
        Commands(loop, wiring.port, relay, lambda state: write_atomically(wiring.state, state.to_json()))
    except OSError as error:
        raise SetupError(f"the links cannot listen: {error}; stop what uses their ports") from error
    log.info("links_started", port=wiring.port, doors=len(wiring.doors), cuts=sorted(relay.state.cuts))
    loop.run()


def _saved_state(wiring: Wiring) -> LinksState:
    try:
        return LinksState.from_json(wiring.state.read_text(), wiring.dcs)
    except FileNotFoundError:
        return LinksState(dcs=wiring.dcs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{wiring.state} is not the state of links ({error}): remove it, the links are healed then"
        raise StateError(message) from error
