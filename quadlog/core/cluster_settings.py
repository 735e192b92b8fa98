"""Settings that all masters of a cluster share, and their changes by agreed CONFIG entries.

The value in a master's file counts until the first entry that sets it; after that the log determines it.  Every
way in (file, environment, REST, command line) accepts the same texts: `parsed`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from quadlog.core.catchup import FACTOR, MIN_S, SPEED
from quadlog.core.consistency import Consistency
from quadlog.core.model import REQUESTED_BY, AgreedSetting
from quadlog.core.quorum import checked
from quadlog.errors import NoSuchSetting, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SETTING: Final = "setting"
VALUE: Final = "setting-value"
BY: Final = REQUESTED_BY
"""Options of a CONFIG transaction: name of a setting, its new value, and who sets it."""

LONGEST_AGREED_LAG: Final = 3600.0
"""Maximum seconds of a `max-peer-lag` that an entry sets."""

DETECTED_ROUNDS: Final = 5
"""Idle rounds without a post after which a split counts as detected, where nothing else is waited for."""

OFF: Final = "off"
"""Value of a limit that does not apply."""


class SplitRecovery(StrEnum):
    """What the sides of a split do while they are apart, and when they are together again."""

    QUORUM = "Quorum"
    """A side without a majority agrees on nothing, so nothing is undone afterwards."""
    SMART = "Smart"
    """Both sides continue; then the weaker side gives way, and its transactions are agreed again as new ones."""
    SIMPLE = "Simple"
    """As Smart, and then all workers of all data centres go back to the fork and apply the log again."""
    NONE = "None"
    """As Smart, but sooner, and the workers of the weaker side stay as they are until an operator rebuilds them."""


class SplitApproval(StrEnum):
    """What lets a side with entries of its own give way."""

    AUTO = "auto"
    """That it hears a stronger side."""
    MANUAL = "manual"
    """An approval by `quadlog split approve`; until then both sides continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Values of these settings."""

    split_recovery: SplitRecovery = SplitRecovery.QUORUM
    """What the sides of a split do.

    `Quorum`: a side without a majority of the voting data centres accepts no writes, and nothing is undone
    afterwards.  `Smart`: each side continues on its own; then the weaker side gives way.  `Simple`: as `Smart`, and
    then all workers apply the log again from the fork on.  `None`: each side continues as soon as the split is
    detected, and the weaker side's workers keep their own branch until they are rebuilt.
    """
    split_approval: SplitApproval = SplitApproval.AUTO
    """Whether a side with entries of its own gives way at once (`auto`), or once an operator approves (`manual`)."""
    max_peer_lag: float = 20.0
    """Seconds without a post after which a member of the view is given up; `off`: none is, and all wait for it.

    At least three idle rounds.
    """
    read_consistency: Consistency = Consistency.SESSION
    """Consistency of a read without a `Quadlog-Consistency` header."""
    log_max_size: int | None = None
    """Maximum entries, with effects, in a data centre's topics; older ones are deleted.  `off`: no limit."""
    log_max_depth: float | None = None
    """Seconds, with a unit (`7d`, `12h`, `30m`, `45s`), after which an entry is deleted.  `off`: never."""
    min_time_to_consider_full_replication: float = MIN_S
    """Minimum seconds that a worker's catching up effect by effect would take before another way is considered."""
    sync_graphs: tuple[str, ...] = ()
    """Graphs of which any change makes a transaction synchronous: IRIs, and `default`; `off`: none."""
    synchro_quorum: str = "N/2 + 1"
    """Number of voting data centres that must have a synchronous transaction before it is committed.

    A number, or a formula of numbers and N, the number of voting data centres: `core.quorum`.
    """
    synchro_timeout: float = 5.0
    """Seconds from its agreement after which a synchronous transaction that is not committed is rolled back."""
    net_speed_bits_per_sec: float = SPEED
    """Speed of the network between workers in bits/s, until a copy has measured it."""
    full_replication_time_factor: float = FACTOR
    """Factor by which catching up effect by effect must take longer than the other way."""

    def lag_ms(self, idle_ms: float) -> float:
        """Return the milliseconds of silence after which a member is given up; `idle_ms`: those of an idle round."""
        lag = self.max_peer_lag * 1000
        return min(lag, DETECTED_ROUNDS * idle_ms) if self.split_recovery is SplitRecovery.NONE else lag

    def text(self, name: str) -> str:
        """Return the value of a setting as text, as `parsed` accepts it.

        >>> settings = ClusterSettings(log_max_depth=7200.0)
        >>> settings.text("max-peer-lag"), settings.text("log-max-depth"), settings.text("split-recovery")
        ('20', '2h', 'Quorum')
        """
        setting = SETTINGS[name]
        return setting.write(getattr(self, setting.field))

    def changed(self, name: str, value: str) -> ClusterSettings:
        """Return these settings with another value of one.

        Raises:
            NoSuchSetting: there is no setting of this name.
            UserError: the value is not allowed.

        """
        known = canonical(name)
        return replace(self, **{SETTINGS[known].field: parsed(known, value)})


def options_of(name: str, value: str, *, by: str) -> dict[str, str]:
    """Return the options of a transaction that sets a setting.

    Raises:
        NoSuchSetting: there is no setting of this name.
        UserError: the value is not allowed, or not as an agreed one.

    """
    known = canonical(name)
    new = parsed(known, value)
    if known == "synchro-timeout" and new > LONGEST_AGREED_LAG:
        raise UserError(
            f"{known} is at most {LONGEST_AGREED_LAG:.0f} s where it is set for all masters, not {value[:100]!r}: all"
            " writes wait behind a synchronous transaction that cannot be decided"
        )
    if known == "max-peer-lag" and new > LONGEST_AGREED_LAG:
        # Nothing is agreed while a member is silent, so this could not be changed any more once one is lost.
        raise UserError(
            f"{known} is at most {LONGEST_AGREED_LAG:.0f} s where it is set for all masters, not {value[:100]!r}:"
            " a lost master would stop all writes, and the change back. In the files of all masters it may be off"
        )
    return {SETTING: known, VALUE: SETTINGS[known].write(new), BY: by}


def names_setting(options: Mapping[str, str]) -> bool:
    """Return whether a CONFIG transaction with these options sets a setting.

    Such a transaction changes no quads, controls or peers.
    """
    return bool(options.get(SETTING))


def set_by(options: Mapping[str, str], index: int, at: int) -> AgreedSetting | None:
    """Return what an entry sets; None if it names no setting.

    A name or value of a later version is kept as it is, for masters that understand it.
    """
    name, value = options.get(SETTING, ""), options.get(VALUE, "")
    return AgreedSetting(name, value, index, at, options.get(BY, "")) if name else None


def after(before: tuple[AgreedSetting, ...], change: AgreedSetting) -> tuple[AgreedSetting, ...]:
    """Return the agreed settings after a change, by name."""
    return tuple(
        sorted((*(one for one in before if one.name != change.name), change), key=attrgetter("name"))
    )


def in_force(files: ClusterSettings, agreed: Iterable[AgreedSetting]) -> ClusterSettings:
    """Return the settings that count: those of a master's file, except where an entry has set another value.

    A name or value of a later version does not count.
    """
    values: dict[str, Any] = {}
    for one in agreed:
        with suppress(KeyError, UserError):
            values[SETTINGS[one.name].field] = parsed(one.name, one.value)
    return replace(files, **values)


def of_file(files: ClusterSettings, agreed: Iterable[AgreedSetting]) -> tuple[AgreedSetting, ...]:
    """Return the values of a master's file that count, because no entry has set them, and are no defaults."""
    known, default = {one.name for one in agreed}, ClusterSettings()
    texts = {name: files.text(name) for name in SETTINGS if name not in known}
    return tuple(
        AgreedSetting(name, text, 0, 0, "") for name, text in texts.items() if text != default.text(name)
    )


def canonical(name: str) -> str:
    """Return the name of a setting, which may be given in any case, or by its classic name.

    >>> canonical("tx-log-max-size"), canonical("Max-Peer-Lag")
    ('log-max-size', 'max-peer-lag')

    Raises:
        NoSuchSetting: there is no such setting.

    """
    wanted = name.strip().lower()
    wanted = CLASSIC.get(wanted, wanted)
    if wanted not in SETTINGS:
        raise NoSuchSetting(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
    return wanted


def parsed(name: str, value: object) -> Any:  # noqa: ANN401 - its type depends on the name
    """Return the value of a setting from text, or from what TOML or JSON made of it.

    Raises:
        UserError: the value is not allowed.

    """
    if isinstance(value, tuple | list):
        value = " ".join(map(str, cast("Iterable[object]", value))) or None
    text = OFF if value is None else str(value).strip()
    try:
        return SETTINGS[name].read(text)
    except ValueError as error:
        raise UserError(f"{name} is {error}, not {text[:100]!r}") from None


# --- how values are written -------------------------------------------------------------------------


class Setting(NamedTuple):
    """A setting: its field in `ClusterSettings`, and how its values are read and written."""

    field: str
    read: Callable[[str], Any]
    """Raises ValueError, which says what a value has to be."""
    write: Callable[[Any], str]


def _one_of(kinds: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        for kind in kinds:
            if text.lower() == kind.value.lower():
                return kind
        raise ValueError(f"one of {', '.join(kinds)}")

    return read


def _seconds(text: str) -> float:
    if text.lower() in {OFF, "inf"}:
        return inf
    seconds = float(text) if re.fullmatch(NUMBER, text) else 0.0
    if not seconds:
        raise ValueError("a number of seconds above 0, or off")
    return seconds


def _number(text: str, *, zero: bool) -> float:
    number = float(text) if re.fullmatch(NUMBER, text) else -1.0
    if number < 0 or (not number and not zero):
        raise ValueError("a number, 0 or more" if zero else "a number above 0")
    return number


def _count(text: str) -> int | None:
    if text.lower() == OFF:
        return None
    count = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0
    if count < LEAST_ENTRIES:
        raise ValueError(f"a number of entries, {LEAST_ENTRIES} or more, or off")
    return count


def _duration(text: str) -> float | None:
    if text.lower() == OFF:
        return None
    found = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)([smhd])", text)
    if found is None or float(found[1]) <= 0:
        raise ValueError("a duration with a unit, as 7d, 12h, 30m or 45s, or off")
    return round(float(found[1]) * UNITS[found[2]], 3)


def _graphs(text: str) -> tuple[str, ...]:
    if text.lower() == OFF:
        return ()
    if len(text) > LONGEST_GRAPHS:
        raise ValueError(f"a list of graphs of at most {LONGEST_GRAPHS} characters")
    names = [name[1:-1] if name[0] + name[-1] == "<>" else name for name in text.split()]
    if not names or not all(name == "default" or re.fullmatch(ABSOLUTE_IRI, name) for name in names):
        raise ValueError(
            "absolute IRIs of graphs, separated by blanks, default for the default graph, or off"
        )
    return tuple(sorted(set(names)))


def _written_graphs(graphs: tuple[str, ...]) -> str:
    return " ".join(graphs) or OFF


def _written(number: float | None) -> str:
    return OFF if number is None or number == inf else f"{number:.15g}"


def _written_duration(seconds: float | None) -> str:
    """Write a duration with the longest unit that divides it."""
    if seconds is None:
        return OFF
    unit = next((unit for unit in ("d", "h", "m") if not seconds % UNITS[unit]), "s")
    return f"{seconds / UNITS[unit]:.15g}{unit}"


LONGEST_GRAPHS: Final = 4_000
"""Characters of `sync-graphs`, at most: its value is in every post."""
ABSOLUTE_IRI: Final = r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+"
NUMBER: Final = r"[0-9]{1,12}(\.[0-9]{1,3})?"
"""Numbers that have the same value when they were written and are read again: of 15 digits."""
LEAST_ENTRIES: Final = 200
"""Minimum of `log-max-size`."""
UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

SETTINGS: Final[Mapping[str, Setting]] = {
    "split-recovery": Setting("split_recovery", _one_of(SplitRecovery), str),
    "split-approval": Setting("split_approval", _one_of(SplitApproval), str),
    "max-peer-lag": Setting("max_peer_lag", _seconds, _written),
    "read-consistency": Setting("read_consistency", _one_of(Consistency), str),
    "log-max-size": Setting("log_max_size", _count, _written),
    "log-max-depth": Setting("log_max_depth", _duration, _written_duration),
    "sync-graphs": Setting("sync_graphs", _graphs, _written_graphs),
    "synchro-quorum": Setting("synchro_quorum", checked, str),
    "synchro-timeout": Setting("synchro_timeout", partial(_number, zero=False), _written),
    "min-time-to-consider-full-replication": Setting(
        "min_time_to_consider_full_replication", partial(_number, zero=True), _written
    ),
    "net-speed-bits-per-sec": Setting("net_speed_bits_per_sec", partial(_number, zero=False), _written),
    "full-replication-time-factor": Setting(
        "full_replication_time_factor", partial(_number, zero=False), _written
    ),
}
"""All settings, by their names."""

CLASSIC: Final = {
    "tx-log-max-size": "log-max-size",
    "tx-log-max-depth": "log-max-depth",
    "min-time-to-consider-full-replication-s": "min-time-to-consider-full-replication",
}
"""Names of classic clusters for some of them."""
