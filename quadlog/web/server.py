"""One uvicorn server in the main thread of a process, whose event loop other threads can use."""

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
from quadlog.web import local_socket
from quadlog.web.http_direct import DirectRoutes
from quadlog.web.http_protocol import Http1Protocol
from quadlog.web.http_rules import HttpRules

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import FrameType

Beside: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"

log = structlog.get_logger()

YOUNG: Final = 50_000
"""Objects that may be created, and not freed by reference counting, before Python searches them for cycles."""

SWITCH_S: Final = 0.001
"""Seconds that a runnable thread waits for a computing one: Python's default of 5 ms is a whole turn of the node."""

IDLE_S: Final = 75
"""Seconds that a connection stays open between two requests: longer than clients' pools and usual load balancers keep
it.  If both ends closed it at the same moment, a request that was just sent would be lost."""


class Server:
    """Server that runs until SIGTERM, SIGINT or `fail`."""

    def __init__(self, host: str, port: int) -> None:
        """Bind the port before anything else is started; clients that connect wait until `run`.

        Raises:
            SetupError: the port cannot be bound.

        """
        self._socket: Final = _listening(host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._reason: str | None = None
        self._is_left = False
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._early: list[Callable[[], Coroutine[Any, Any, None]]] | None = []
        """Coroutines to run once the server serves; None from then on."""
        self._lock = threading.Lock()

    def run(
        self,
        app: Any,  # noqa: ANN401 - any ASGI application
        *,
        beside: Sequence[Beside] = (),
        local_url: str | None = None,
    ) -> int:
        """Serve `app`, and run the `beside` coroutines meanwhile; return 0 after an orderly stop, 1 after a failure.

        `local_url`: the server's address, under which clients on this machine find a local socket.
        """
        config = config_of(app, shutdown_s=2)
        self._uvicorn = uvicorn.Server(config)
        self._uvicorn.should_exit = self._is_left
        # Handles signals until uvicorn does, and when uvicorn raises the one that ended it again, without effect.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave_by)
        if self._reason is None:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(self._serve(self._uvicorn, beside, local_url))
        return 0 if self._reason is None else 1

    @contextmanager
    def early(self, app: Any) -> Generator[None]:  # noqa: ANN401 - any ASGI application
        """Serve another application in a thread, before `run`."""
        server = uvicorn.Server(config_of(app, shutdown_s=1))
        taken = self._socket.dup()  # closed with that server
        thread = threading.Thread(target=server.run, args=([taken],), name="early", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()

    async def _serve(self, server: uvicorn.Server, beside: Sequence[Beside], local_url: str | None) -> None:
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
        sockets = [self._socket]
        if local_url and (local := local_socket.listening(local_url, self._socket.getsockname()[1])):
            sockets.append(local)
        try:
            await server.serve(sockets=sockets)
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
        """Reason of a failure that ends the process; empty if there is none."""
        return self._reason or ""

    def fail(self, reason: str) -> None:
        """End the process because to continue would break a guarantee.  May be called from any thread."""
        if self._reason is None:
            self._reason = reason
            log.error("process_failed", reason=reason)
        self.leave()

    def leave(self) -> None:
        """Stop the process in order.  May be called from any thread, and before the server serves."""
        self._is_left = True
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True

    def _leave_by(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.leave()

    def call_soon(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine on the server's loop, from any thread, once the server serves; no effect after its end."""
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
        """Log the error of a task: nothing awaits it; failed work is requested again, and the log shows why."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("scheduled_task_failed", exc_info=error)


def config_of(app: Any, *, shutdown_s: int) -> uvicorn.Config:  # noqa: ANN401 - any ASGI application
    """Return the configuration of all servers; `shutdown_s`: seconds to complete requests when the server stops."""
    return uvicorn.Config(
        HttpRules(DirectRoutes(app) if isinstance(app, Starlette) else app),
        http=Http1Protocol,
        ws="none",
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=shutdown_s,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        message = f"{host}:{port} cannot be listened on: {error.strerror}; stop what is there, or set another 'port'"
        raise SetupError(message) from error


def collect_seldom() -> None:
    """Make Python search for cycles a seventieth as often as by default, and never in imported modules.

    Almost no objects here form cycles, but those decoded from a batch live long enough to start the search, which took
    a fifteenth of the CPU of a loaded cluster.
    """
    gc.collect()
    gc.freeze()
    _, *older = gc.get_threshold()
    gc.set_threshold(YOUNG, *older)


def _name_threads() -> None:
    """Pass thread names to the kernel, for `top -H` and the benchmarks: Python does so only from 3.14 on."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with suppress(OSError):  # there is no /proc
                Path(f"/proc/self/task/{thread.native_id}/comm").write_text(thread.name[:15])
