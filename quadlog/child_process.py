"""Work that occupies a core, in a separate process: a module that prints its result as one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quadlog.errors import StateError
from quadlog.leash import leashed

if TYPE_CHECKING:
    from typing import Self


class ChildTask:
    """A running process of one quadlog module.

    It is killed if the context ends before it does, or if the thread that started it ends.
    """

    def __init__(self, module: str, *arguments: str, said: str = "") -> None:
        """Start the process; `said` is its complete standard input."""
        self._module = module
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            leashed([sys.executable, "-m", module, *arguments]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # the process has ended already: `result` reports why
            self._process.stdin.write(said)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdin = None

    @property
    def is_done(self) -> bool:
        """True if the process has ended."""
        return self._process.poll() is not None

    def result(self) -> Any:  # noqa: ANN401 - any JSON value
        """Wait for the end of the process and return its decoded output.

        Raises:
            StateError: the process failed; the message has its exit code and the last line of stderr.

        """
        said, errors = self._process.communicate()
        if self._process.returncode:
            why = "".join(errors.strip().splitlines()[-1:]) or "it wrote no reason"
            raise StateError(f"a process of {self._module} ended with {self._process.returncode}: {why}")
        return json.loads(said)

    def kill(self) -> None:
        """Kill the process, from any thread; `result` then fails."""
        self._process.kill()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process if it still runs."""
        if not self.is_done:
            self.kill()
        self._process.communicate()
