"""Kafka's own console tools, run from the cached jars."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from quadlog.kafka.prepare import prepare
from quadlog.kafka.tool_names import main_class

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_tool(name: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the tool, which sets output and exit code."""
    class_name = main_class(name)
    installation = prepare(lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    command = installation.command(class_name, *arguments)
    os.execv(command[0], command)  # noqa: S606  no shell wanted
