"""Numbers, sizes and times of a report, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_KIB: Final = 1024
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def number(count: int) -> str:
    """Return a number with separators of thousands.

    >>> number(1234567)
    '1,234,567'
    """
    return f"{count:,}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun; the plural is a regular one unless it is given.

    >>> counted(1, "update"), counted(1200, "update"), counted(2, "entry", "entries")
    ('1 update', '1,200 updates', '2 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def enumerated(names: list[str]) -> str:
    """Return names as a sentence has them.

    >>> enumerated(["dc1", "dc2", "dc3"])
    'dc1, dc2 and dc3'
    """
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def size(count: float) -> str:
    """Return a number of bytes in the greatest unit of which it has one.

    >>> size(512), size(3 * 1024 * 1024)
    ('512 bytes', '3.0 MiB')
    """
    unit = 0
    while count >= _KIB and unit < len(_UNITS) - 1:
        count, unit = count / _KIB, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count:.0f} {_UNITS[0]}"


def duration(seconds: float) -> str:
    """Return a time span, rounded.

    >>> duration(0.04), duration(41.7), duration(750), duration(8_000), duration(200_000)
    ('less than 1 s', '42 s', '12 min 30 s', '2 h 13 min', '2 d 7 h')
    """
    if seconds < 1:
        return "less than 1 s"
    whole = round(seconds)
    for unit, name, part, part_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole} s"


def moment(text: str | None) -> str:
    """Return a moment of a report in UTC to the second; a text that is none stays as it is.

    >>> moment("2026-11-29T14:03:12.345+01:00"), moment(None)
    ('2026-11-29 13:03:12 UTC', '')
    """
    read = _read(text)
    return text or "" if read is None else f"{read:%Y-%m-%d %H:%M:%S} UTC"


def period(first: str | None, last: str | None) -> str:
    """Return two moments in UTC, short.

    >>> period("2026-11-29T14:03:12Z", "2026-11-29T14:31:09Z"), period(None, None)
    ('29 Nov 14:03:12 to 14:31:09 UTC', '')
    >>> period("2026-11-29T14:03:12Z", "2026-12-01T14:31:09Z")
    '29 Nov 14:03 to 1 Dec 14:31 UTC'
    """
    begins, ends = _read(first), _read(last)
    if begins is None or ends is None:
        return moment(first or last)
    if begins.date() == ends.date():
        return f"{begins.day} {begins:%b %H:%M:%S} to {ends:%H:%M:%S} UTC"
    return f"{begins.day} {begins:%b %H:%M} to {ends.day} {ends:%b %H:%M} UTC"


def _read(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
