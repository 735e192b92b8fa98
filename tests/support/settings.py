"""Values of the settings that all masters share, as people write them."""

from __future__ import annotations

_NEVER = (
    *(
        "",
        "?",
        "null",
        "None of these",
        "true",
        "no",
        "yes",
        "-1",
        "-0.5",
        "nan",
        "-inf",
        "1e3",
        "0x10",
        "1,5",
        "1_000",
    ),
    *(
        "twenty",
        "20 s",
        "20sec",
        "s",
        "⑳",
        "\u06f5",
        "5;",
        "5 5",
        "--5",
        "+5",
        ".5",
        "5.",
        "[]",
        "{}",
        "'5'",
        '"5"',
    ),
)
"""Wrong for every setting."""
_OF = {
    "split-recovery": ("Quorumm", "majority", "off", "20", "Simple,Smart"),
    "split-approval": ("automatic", "off", "by hand", "true", "auto,manual"),
    "max-peer-lag": ("0", "0.0", "0d", "7d", "on"),
    "read-consistency": ("fresh", "off", "1", "strictly", "session,local"),
    "log-max-size": ("0", "199", "1000.5", "7d", "9999999999999999999"),
    "log-max-depth": ("0d", "7", "7 days", "1w", "1d12h"),
    "min-time-to-consider-full-replication": ("off", "10m", "1.00001", "1e2", "9999999999999999"),
    "sync-graphs": ("urn", "default,urn:a", "<urn:a", "urn:a http", "Default"),
    "synchro-quorum": ("0", "N/2 - N", "N**2", "N//2 + 1", "N - 1"),
    "synchro-timeout": ("0", "0.0", "off", "5s", "9999999999999999"),
    "net-speed-bits-per-sec": ("0", "0.0", "off", "100Mbit", "9999999999999999"),
    "full-replication-time-factor": ("0", "off", "1.3x", "130%", "1/3"),
}
WRONG = [(name, text) for name, texts in _OF.items() for text in (*_NEVER, *texts)]
"""Name and value: refused, and changes nothing."""

RIGHT = [
    *(("split-recovery", text, "Quorum") for text in ("Quorum", "quorum", " QUORUM ")),
    *(("Split-Recovery", text, "Smart") for text in ("smart", "SMART")),
    *(("split-recovery", text, text.capitalize()) for text in ("simple", "NONE")),
    *(("split-approval", text, "manual") for text in ("manual", "Manual")),
    *(("min-time-to-consider-full-replication", text, text) for text in ("0", "600", "0.5")),
    ("min-time-to-consider-full-replication-s", "60", "60"),
    ("net-speed-bits-per-sec", "1000000000", "1000000000"),
    *(("sync-graphs", text, "default urn:a") for text in ("urn:a default", "<urn:a> default urn:a")),
    ("sync-graphs", "OFF", "off"),
    *(("synchro-quorum", text, "N/2 + 1") for text in ("N/2 + 1", "n/2+1", " N / 2 + 1 ")),
    ("Synchro-Quorum", "(n + 1) * 2 / 3", "(N + 1)*2/3"),
    ("synchro-quorum", "3", "3"),
    ("synchro-timeout", "0.5", "0.5"),
    *(("full-replication-time-factor", text, written) for text, written in (("1.50", "1.5"), ("2", "2"))),
    *(("max-peer-lag", text, text) for text in ("5", "7.5", "off")),
    ("max-peer-lag", "inf", "off"),
    *(("read-consistency", text, "strict") for text in ("strict", "Strict")),
    *(("log-max-size", text, written) for text, written in (("200", "200"), ("0500", "500"), ("OFF", "off"))),
    ("tx-log-max-size", "1000", "1000"),
    *(("log-max-depth", text, text) for text in ("45s", "90s", "1d", "90m", "off")),
    *(("log-max-depth", text, written) for text, written in (("120s", "2m"), ("24h", "1d"), ("1.5h", "90m"))),
]
"""Name, value, and the value as it is shown."""
