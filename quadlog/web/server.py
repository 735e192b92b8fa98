"""One uvicorn server as the main thread of a process, and how other threads reach its loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog
import uvicorn
from starlette.applications import Starlette

from quadlog.errors import SetupError
from quadlog.web.http_direct import DirectRoutes
from quadlog.web.http_protocol import Http1Protocol
from quadlog.web.http_rules import HttpRules

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import FrameType

Beside: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"

log = structlog.get_logger()

YOUNG: Final = 50_000
"""Objects that may be made, and not freed by their counts, before Python looks for cycles among them."""

SWITCH_S: Final = 0.001
"""How long a thread that wants to run waits for one that computes: Python's own 5 ms are a turn of the node."""

IDLE_S: Final = 75
"""Connections stay open so long between two requests: longer than clients' pools and usual balancers keep them.  Where
both ends give up at the same moment, a request that was just sent is lost."""


class Server:
    """Serves until SIGTERM, SIGINT or `fail`."""

    def __init__(self, host: str, port: int) -> None:
        """Take the port before anything else is begun; whoever connects waits until `run`.

        Raises:
            SetupError: the port is taken.

        """
        self._socket: Final = _listening(host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._reason: str | None = None
        self._is_left = False
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._early: list[Callable[[], Coroutine[Any, Any, None]]] | None = []
        """What is to run once it serves; None: it does."""
        self._lock = threading.Lock()

    def run(self, app: Any, *, beside: Sequence[Beside] = ()) -> int:  # noqa: ANN401 - any ASGI application
        """Serve `app`, and run what is `beside` it until then.  0 when told to stop, 1 when failed."""
        config = config_of(app, shutdown_s=2)
        self._uvicorn = uvicorn.Server(config)
        self._uvicorn.should_exit = self._is_left
        # Until uvicorn listens to signals; and it raises the one that ended it once more, where nothing is to happen.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave_by)
        if self._reason is None:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(self._serve(self._uvicorn, beside))
        return 0 if self._reason is None else 1

    @contextmanager
    def early(self, app: Any) -> Generator[None]:  # noqa: ANN401 - any ASGI application
        """Have a thread serve something else, before `run`."""
        server = uvicorn.Server(config_of(app, shutdown_s=1))
        taken = self._socket.dup()  # it is closed with that server
        thread = threading.Thread(target=server.run, args=([taken],), name="early", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()

    async def _serve(self, server: uvicorn.Server, beside: Sequence[Beside]) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            early, self._early = self._early or [], None
        for make in early:
            self.call_soon(make)
        _name_threads()
        collect_seldom()
        sys.setswitchinterval(SWITCH_S)
        tasks = [asyncio.create_task(make()) for make in beside]
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            await server.serve(sockets=[self._socket])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("background_task_failed", exc_info=error)
            self.fail(str(error))

    @property
    def reason(self) -> str:
        """Why the process has to end; empty: it was told to, or goes on."""
        return self._reason or ""

    def fail(self, reason: str) -> None:
        """End the process, from any thread: going on would break a promise."""
        if self._reason is None:
            self._reason = reason
            log.error("process_failed", reason=reason)
        self.leave()

    def leave(self) -> None:
        """End the process in order, from any thread, also before it serves."""
        self._is_left = True
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True

    def _leave_by(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.leave()

    def call_soon(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine on the server's loop, from any thread, once it serves; not after its end."""
        with self._lock:
            if self._early is not None:
                self._early.append(make)
                return
        if self._loop is None or self._loop.is_closed():
            return

        def begin() -> None:
            task = asyncio.ensure_future(make())
            self._tasks.add(task)
            task.add_done_callback(self._done)

        self._loop.call_soon_threadsafe(begin)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for it: what failed is asked for again, and the log tells why it had to be."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("scheduled_task_failed", exc_info=error)


def config_of(app: Any, *, shutdown_s: int) -> uvicorn.Config:  # noqa: ANN401 - any ASGI application
    """How every door is served; `shutdown_s`: what requests under way have when it stops."""
    return uvicorn.Config(
        HttpRules(DirectRoutes(app) if isinstance(app, Starlette) else app),
        http=Http1Protocol,
        ws="none",
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=shutdown_s,
        log_level="warning",
        access_log=False,
        lifespan="off",
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        message = f"{host}:{port} cannot be listened on: {error.strerror}; stop what is there, or set another 'port'"
        raise SetupError(message) from error


def collect_seldom() -> None:
    """Look for cycles a seventieth as often as Python does by itself, and not in what was imported.

    Next to nothing here is a cycle, but what a batch decodes lives long enough to set off the search: it took
    a fifteenth of the CPU of a loaded cluster.
    """
    gc.collect()
    gc.freeze()
    _, *older = gc.get_threshold()
    gc.set_threshold(YOUNG, *older)


def _name_threads() -> None:
    """Where CPU goes, for `top -H` and the bench: before Python 3.14 the kernel does not know threads' names."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with suppress(OSError):  # no /proc here: no names
                Path(f"/proc/self/task/{thread.native_id}/comm").write_text(thread.name[:15])
