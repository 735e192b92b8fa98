"""Kafka's own console tools, run from the cached jars."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, NoReturn

from quadlog.kafka.prepare import prepare
from quadlog.kafka.tool_names import has_properties, main_class, with_properties

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_tool(
    name: str, arguments: Sequence[str], *, properties: str = "", jvm: tuple[str, ...] = ()
) -> NoReturn:
    """Replace this process with the tool, which sets output and exit code.

    `properties`: text of a file of Java properties for a tool that connects to Kafka, unless the arguments give one;
    `jvm`: options of Java.
    """
    class_name = main_class(name)
    installation = prepare(lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    if properties and not has_properties(name, arguments):
        arguments = with_properties(name, arguments, _unnamed_file(properties))
    command = installation.command(class_name, *arguments, jvm=jvm)
    os.execv(command[0], command)  # noqa: S606  no shell wanted


def _unnamed_file(text: str) -> str:
    """Return a path at which only this process, and the program that replaces it, can read a text."""
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        file.write(text)
        file.flush()
        handle = os.dup(file.fileno())
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)  # noqa: FBT003
    return f"/dev/fd/{handle}"
