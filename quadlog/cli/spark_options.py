"""Options that all commands with Spark share; a command takes them as one argument."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.replay.spark import SparkSettings

Repository = Annotated[str, typer.Option(help="As in the settings.")]
Memory = Annotated[int, typer.Option(min=512, help="MB of heap, of the driver and of each executor.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Options of all commands with Spark."""

    repository: Repository = "main"
    spark: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]"
    memory: Memory = 512
    scratch: Annotated[Path | None, typer.Option(help="For what does not fit into memory.")] = None
    py_files: Annotated[list[str] | None, typer.Option(help="Wheels for executors without quadlog.")] = None

    @property
    def settings(self) -> SparkSettings:
        """How Spark runs."""
        from quadlog.replay.spark import SparkSettings  # noqa: PLC0415  commands import what they need when they run

        return SparkSettings(
            master=self.spark,
            memory_mb=self.memory,
            scratch=self.scratch,
            py_files=tuple(self.py_files or ()),
        )


def with_options(kind: type[SparkOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a class as options, which it takes as one argument, `options`."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [
        field.replace(annotation=hints[name]) for name, field in inspect.signature(kind).parameters.items()
    ]

    def given(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:  # noqa: ANN401
            command(options=kind(**{field.name: values.pop(field.name) for field in fields}), **values)

        own = inspect.signature(command, eval_str=True).parameters.values()
        both = [*(one for one in own if one.name != "options"), *fields]
        both.sort(key=lambda one: (one.kind, one.default is not one.empty))  # required ones first
        run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]  # what typer reads
        return run

    return given
