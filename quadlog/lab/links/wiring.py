"""Configuration file of the links process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quadlog.lab.directory import write_atomically
from quadlog.lab.links.relay import ListenDoor


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The data centres, the doors between them, the port for commands, and the file of the state."""

    dcs: tuple[str, ...]
    port: int
    state: Path
    doors: tuple[ListenDoor, ...]

    def write(self, file: Path) -> None:
        """Write the wiring to a file for the process."""
        doors = [asdict(door) for door in self.doors]
        values = {"dcs": self.dcs, "port": self.port, "state": str(self.state), "doors": doors}
        write_atomically(file, json.dumps(values, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Wiring:
        """Read the wiring from a file."""
        values: dict[str, Any] = json.loads(file.read_text())
        return cls(
            dcs=tuple(values["dcs"]),
            port=values["port"],
            state=Path(values["state"]),
            doors=tuple(ListenDoor(**door) for door in values["doors"]),
        )
