"""Settings that masters and workers have in common, and their loading: only this module reads the environment."""

from __future__ import annotations

import os
import tomllib
from functools import cached_property
from pathlib import Path  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from quadlog import failpoints
from quadlog.core.cluster_settings import CLASSIC, SETTINGS, parsed
from quadlog.errors import SetupError, UserError
from quadlog.settings.environment import PEER, kebab, values_in, variable
from quadlog.settings.kafka_security import KafkaSecuritySettings
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

    from quadlog.settings.kafka_security import KafkaCredentials

NO_LONGER: Final = {
    "incremental-update-limit": "a worker reckons with what each way takes, see catch-up",
    "manual-replication": "a worker that needs a copy takes one by itself, see catch-up",
    "remote-replication": "a worker copies one of its own data centre, by itself, see catch-up",
}
"""Settings of systems of this kind that have no meaning here, with what replaces them."""


def lower(value: object) -> object:
    """Return a text in lower case: names of levels and roles are read in any case."""
    return value.strip().lower() if isinstance(value, str) else value


def _rename_classic(values: dict[str, Any], path: Path | None) -> None:
    """Give settings that have their classic name in a file the name that they have here.

    Raises:
        SetupError: the file has both.

    """
    for old, new in CLASSIC.items():
        if old in values and new in values:
            raise SetupError(f"{old} and {new} in {path} are one setting: take one out")
        if old in values:
            values[new] = values.pop(old)


class NodeSettings(KafkaSecuritySettings):
    """Settings that masters and workers have in common."""

    model_config = ConfigDict(
        alias_generator=kebab,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        validate_default=True,
    )

    node_id: str
    """Id of this master or worker; no other one has it."""
    dc: str
    """Its data centre."""
    repository: str = "main"
    """Name of the repository, with which the names of topics begin."""
    data_dir: Path
    """Directory of its files, which no other process uses."""
    host: str = "127.0.0.1"
    """Address at which it listens."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Port at which it listens."""
    kafka: str
    """Bootstrap servers of this data centre's own Kafka."""
    max_transaction_size: Annotated[int, Field(ge=1024)] = 64 * MIB
    """Maximum bytes of one update's text (above it: 413), and of all documents that one update LOADs."""
    backups: Path | None = None
    """Directory of `quadlog backup`.

    A worker that no other worker gives a copy restores a backup; a master keeps the log after the backup.
    """
    spark_master: str = "local[2]"
    """Spark master for a worker's bundles and a master's archive."""
    spark_memory: Annotated[int, Field(ge=512)] = 512
    """MB of heap for the Spark driver and for each executor."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower)] = "info"
    """Lowest level of the events that are logged."""
    failpoint: str = ""
    """Point at which a test lets this process die, see `quadlog.failpoints`."""

    @cached_property
    def kafka_credentials(self) -> dict[str, KafkaCredentials]:
        """Credentials for each Kafka, by its bootstrap servers; files were read when the settings were.

        Raises:
            ValueError: settings contradict each other, or a file cannot be read.

        """
        return {self.kafka: self.credentials()}

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        assert self.kafka_credentials, "a node has a Kafka"
        return self

    @field_validator("failpoint")
    @classmethod
    def _is_a_failpoint(cls, text: str) -> str:
        failpoints.parse(text)
        return text

    @field_validator(*(setting.field for setting in SETTINGS.values()), mode="before", check_fields=False)
    @classmethod
    def _as_agreed(cls, value: object, info: ValidationInfo) -> object:
        """Read a setting that all masters share as at every other way in."""
        assert info.field_name is not None, "it validates fields"
        try:
            return parsed(kebab(info.field_name), value)
        except UserError as error:
            raise ValueError(str(error)) from None

    @classmethod
    def load(cls, path: Path | None, environ: Mapping[str, str] | None = None) -> Self:
        """Read `path`, override it by `QUADLOG_…` variables, and validate.

        Without `path` all settings are variables; `environ`: the variables, instead of those of this process.

        Raises:
            SetupError: names the file, each wrong key or variable and what it should be.

        """
        try:
            values: dict[str, Any] = {} if path is None else tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # missing, not UTF-8, not TOML
            raise SetupError(f"settings file {path} cannot be read: {error}") from error
        environment = os.environ if environ is None else environ
        for name, instead in NO_LONGER.items():
            if name in values or variable(name) in environment:
                raise SetupError(
                    f"{name} is no longer supported: {instead}; take it out of {path} and of the environment"
                )
        _rename_classic(values, path)
        given = _given(environment, cls)
        for key, fields in given.pop(PEER, {}).items():
            if cls.peer_fields():
                values.setdefault(PEER, {}).setdefault(key, {}).update(fields)
        values |= given
        try:
            return cls(**values)
        except ValidationError as error:
            wrong = "; ".join(map(_said, error.errors()))
            where = "QUADLOG_… variables" if path is None else f"{path} (and QUADLOG_… variables)"
            raise SetupError(f"settings in {where} are not usable: {wrong}") from error

    @classmethod
    def peer_fields(cls) -> frozenset[str]:
        """Return the settings of each peer; empty: this process has no peers."""
        return frozenset()


def _said(error: ErrorDetails) -> str:
    """Return what is wrong with a setting, or with several together."""
    what = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, error['loc']))}: {what}" if error["loc"] else what


def kafka_credentials(environ: Mapping[str, str] | None = None) -> KafkaCredentials:
    """Return the credentials that `QUADLOG_KAFKA_…` variables give a command without settings.

    `environ`: the variables; None: those of this process.

    Raises:
        SetupError: names each wrong variable and what it should be.

    """
    given = _given(os.environ if environ is None else environ, KafkaSecuritySettings)
    try:
        return KafkaSecuritySettings(
            **{name.replace("-", "_"): text for name, text in given.items()}
        ).credentials()
    except ValidationError as error:
        wrong = "; ".join(f"{variable(kebab(str(e['loc'][0])))}: {e['msg']}" for e in error.errors())
        raise SetupError(f"QUADLOG_KAFKA_… variables are not usable: {wrong}") from error
    except ValueError as error:
        raise SetupError(f"QUADLOG_KAFKA_… variables are not usable: {error}") from error


def _given(environment: Mapping[str, str], kind: type[BaseModel]) -> dict[str, Any]:
    """Return the values of the settings of a kind of process that its environment has."""
    kinds = list(_kinds(NodeSettings))
    own = {kebab(name) for name in kind.model_fields} - {PEER}
    peer = frozenset[str]().union(*(one.peer_fields() for one in kinds))
    others = {kebab(name) for one in kinds for name in one.model_fields} - own - {PEER}
    return values_in(environment, own, peer=peer, others=others)


def _kinds(kind: type[NodeSettings]) -> Iterator[type[NodeSettings]]:
    """Yield the settings of all kinds of processes."""
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
