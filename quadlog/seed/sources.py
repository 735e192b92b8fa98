"""Sources of an import: files and folders, in the format that a file's name implies."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pyoxigraph import RdfFormat

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyoxigraph import NamedNode

ZIPPED: Final = ".gz"

BUFFER: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """One document."""

    name: str
    """Name that the user gave, for errors and for the sources that the log records for its seed."""
    path: Path
    format: RdfFormat
    is_zipped: bool = False
    graph: NamedNode | None = None
    """Graph of its triples; None: the default graph, or the graphs that the document names."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size

    def open(self) -> tuple[BinaryIO, BinaryIO]:
        """Return the decompressed file to read, and the file on disk, whose position shows the progress.

        Raises:
            UserError: the file cannot be opened.

        """
        try:
            file = self.path.open("rb", buffering=BUFFER)
        except OSError as error:
            raise UserError(f"{self.name} cannot be read: {error.strerror}") from error
        return (cast("BinaryIO", gzip.open(file)) if self.is_zipped else file), file


def source_of(path: Path) -> ImportSource | None:
    """Return a file as a source; None if its name does not imply a format.

    >>> [source and source.format.name for source in map(source_of, (Path("people.nq.gz"), Path("README")))]
    ['N-Quads', None]
    """
    is_zipped = path.suffix == ZIPPED
    bare = path.with_suffix("") if is_zipped else path
    kind = RdfFormat.from_extension(bare.suffix.removeprefix(".")) if bare.suffix else None
    return kind and ImportSource(name=str(path), path=path, format=kind, is_zipped=is_zipped)


def files_of(names: Iterable[str]) -> Iterator[ImportSource]:
    """Yield the files with these names, and all of known formats in folders of these names, in order of paths.

    Raises:
        UserError: a name leads to no file, or to one whose format is unknown.

    """
    for name in names:
        path = Path(name)
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            found = [source for file in inside if (source := source_of(file))]
            if not found:
                raise UserError(
                    f"{name} has no file whose name ends with .nq, .nt, .ttl, .trig, .rdf, .jsonld or .n3"
                )
            yield from found
        elif not path.is_file():
            raise UserError(
                f"{name} is neither a file nor a folder, nor begins with sparql+http or rdf4j+http"
            )
        elif (source := source_of(path)) is None:
            raise UserError(
                f"what {name} holds cannot be told: name it .nq, .nt, .ttl, .trig, .rdf, .jsonld or .n3"
            )
        else:
            yield source
