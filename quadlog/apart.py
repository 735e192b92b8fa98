"""Work that takes a core to itself, as a process of its own: a module that says its result as one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quadlog.errors import StateError

if TYPE_CHECKING:
    from typing import Self


class Apart:
    """A module of ours that runs; left before its end, it is ended."""

    def __init__(self, module: str, *arguments: str, said: str = "") -> None:
        """`said` is what it reads before it does anything."""
        self._module = module
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # it has ended already: the result says why
            self._process.stdin.write(said)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdin = None

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def result(self) -> Any:  # noqa: ANN401 - what JSON holds
        """What it says, once it is done.

        Raises:
            StateError: it ended otherwise; says why.

        """
        said, errors = self._process.communicate()
        if self._process.returncode:
            why = "".join(errors.strip().splitlines()[-1:])
            raise StateError(f"a process of {self._module} ended with {self._process.returncode}: {why}")
        return json.loads(said)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it goes on."""
        if not self.is_done:
            self._process.kill()
        self._process.communicate()
