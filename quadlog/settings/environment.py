"""Settings from `QUADLOG_…` variables: names of settings and of peers, files with secrets, and unknown names.

QUADLOG_NODE_ID=dc1-m1                      node-id
QUADLOG_PEER__2__URL=http://dc2:7001        peer.2.url
QUADLOG_KAFKA_FILE=/run/secrets/kafka       kafka, from a file: what is in it, without blanks and line ends around
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quadlog.core.cluster_settings import CLASSIC
from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PREFIX: Final = "QUADLOG_"
FILE: Final = "_FILE"
NESTED: Final = "__"
PEER: Final = "peer"

OF_PROGRAMS: Final = frozenset(
    {
        "QUADLOG_CACHE",
        "QUADLOG_MAVEN",
        "QUADLOG_PORTS",
        "QUADLOG_LAB_ID",
        "QUADLOG_IMAGE",
        "QUADLOG_SPARK_PORT",
    }
    | {f"QUADLOG_DC{number}_PORT" for number in (1, 2, 3)}
)
"""Variables of the prefix that are no settings: of the command, of the lab, and of `compose.yaml`."""


def kebab(name: str) -> str:
    """Return the key in the file for the name of a field."""
    return name.replace("_", "-")


def variable(setting: str) -> str:
    """Return the variable of a setting.

    >>> variable("max-peer-lag"), variable("peer.2.url")
    ('QUADLOG_MAX_PEER_LAG', 'QUADLOG_PEER__2__URL')
    """
    return PREFIX + setting.upper().replace("-", "_").replace(".", NESTED)


def values_in(
    environment: Mapping[str, str], own: Collection[str], *, peer: Collection[str], others: Collection[str]
) -> dict[str, Any]:
    """Return the values of a process's settings that its environment has.

    Args:
        environment: all variables.
        own: settings of the process.
        peer: settings of each peer of a master.
        others: settings of other processes, which may be in the same environment: ignored.

    Raises:
        SetupError: names each variable that is no setting, with the nearest one, or whose file cannot be read.

    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    known = {*own, *others, *CLASSIC}
    for name, setting, text in _given(environment, known, wrong):
        if (new := CLASSIC.get(setting, setting)) in known:
            if new in values:
                wrong.append(f"{name} and another variable are one setting: take one out")
            elif new in own:
                values[new] = text
        elif (found := _of_peer(setting)) is not None and found[1] in peer:
            key, field = found
            values.setdefault(PEER, {}).setdefault(key, {})[field] = text
        else:
            near = _nearest(name, [*known, *(f"{PEER}.1.{field}" for field in peer)])
            wrong.append(f"{name} is no setting{near}")
    if wrong:
        raise SetupError("; ".join(wrong))
    return values


def _given(
    environment: Mapping[str, str], known: Collection[str], wrong: list[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, setting and value of each variable; of one that names a file, its content."""
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in OF_PROGRAMS:
            continue
        setting = _setting(name)
        if name.endswith(FILE) and setting not in known:
            try:
                yield (
                    name,
                    _setting(name.removesuffix(FILE)),
                    Path(environment[name]).read_text("utf-8").strip(),
                )
            except (OSError, ValueError) as error:
                wrong.append(f"{name}: {environment[name]} cannot be read: {error}")
        else:
            yield name, setting, environment[name]


def _setting(name: str) -> str:
    return name.removeprefix(PREFIX).replace(NESTED, ".").replace("_", "-").lower()


def _of_peer(setting: str) -> tuple[str, str] | None:
    """Return the key of a peer and the name of a setting of it, or None.

    >>> _of_peer("peer.2.url"), _of_peer("peer.2"), _of_peer("port")
    (('2', 'url'), None, None)
    """
    table, _, rest = setting.partition(".")
    key, _, field = rest.partition(".")
    return (key, field) if table == PEER and key and field else None


def _nearest(name: str, settings: list[str]) -> str:
    near = get_close_matches(_setting(name.removesuffix(FILE)), settings, n=1, cutoff=0.7)
    return f"; do you mean {variable(near[0])}?" if near else ""
