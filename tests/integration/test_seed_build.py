"""What is built of sources: the signature that anybody can count, labels as they were asked for, and no half of it."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import tarfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse

from quadlog.errors import Forbidden, StateError, UserError
from quadlog.progress import Phases
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES as STORE_FILES
from quadlog.quadstore.quadstore import QuadStore
from quadlog.seed import commands, counting, lines, recount
from quadlog.seed.build import build
from quadlog.seed.commands import ImportOptions
from quadlog.seed.sources import ImportSource, files_of
from quadlog.snapshots.store_archive import (
    FILES,
    ArchiveExtractor,
    ArchiveManifest,
    label_of,
    pieces_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.seed.quads import Tally

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def built(
    tmp_path: Path, sources: Sequence[ImportSource], name: str = "built", *, keep: bool = False
) -> tuple[ArchiveManifest, Path]:
    directory = tmp_path / name
    return build(sources, directory, Phases(), keep_blank_nodes=keep), directory


def opened(directory: Path, label: ArchiveManifest) -> QuadStore:
    """The store that a worker makes of it."""
    place = directory.with_name(f"{directory.name}-opened")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copytree(directory / FILES, place / STORE_FILES)
    QuadStore.adopt(place, Applied(signature=int(label.signature, 16), quads=label.quads))
    return QuadStore.open(place)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def check(directory: Path, label: ArchiveManifest) -> QuadStore:
    """It is what it says."""
    store = opened(directory, label)
    assert store.recount() == (int(label.signature, 16), label.quads)
    assert (store.applied.signature, store.applied.quads, store.applied.index) == (*store.recount(), 0)
    return store


NUMBERS = count()
iris = st.sampled_from("abc").map(lambda name: NamedNode(f"urn:{name}"))
nodes = iris | st.sampled_from(["b0", "0a", "A1", "ff", "x.y"]).map(BlankNode)
texts = st.text(max_size=30).filter(lambda text: not re.search("[\\ud800-\\udfff]", text))
literals = (
    texts.map(Literal)
    | st.sampled_from(["en", "de-AT", "EN-us"]).map(lambda language: Literal("word", language=language))
    | st.tuples(
        st.sampled_from(
            ["01", "1", "+1", "-0", "1.50", "1e0", "true", "NaN", "2020-01-01T00:00:00+00:00", "é"]
        ),
        st.sampled_from(
            ["integer", "byte", "decimal", "double", "float", "boolean", "dateTime", "string", "own"]
        ),
    ).map(lambda pair: Literal(pair[0], datatype=NamedNode(XSD + pair[1])))
)
triples = st.builds(Triple, nodes, iris, nodes | literals)
quads = st.builds(Quad, nodes, iris, nodes | literals | triples, nodes)


def check_text(tmp_path: Path, text: str) -> None:
    """What is built of a file is what a parser reads there, or it is refused."""
    source = next(files_of([str(written(tmp_path / "some.nq", text))]))
    expected = Store()
    try:
        expected.extend(parse(text, RdfFormat.N_QUADS))
    except SyntaxError:
        with pytest.raises(UserError, match=r"some\.nq, line \d+"):
            built(tmp_path, [source], f"example-{next(NUMBERS)}")
        return
    label, directory = built(tmp_path, [source], f"example-{next(NUMBERS)}")
    store = check(directory, label)
    assert sorted(store.lines()) == sorted(f"{quad} ." for quad in expected)


@pytest.mark.parametrize("examples", [15, pytest.param(200, marks=pytest.mark.soak)])
def test_the_signature_is_that_of_what_is_stored(tmp_path: Path, examples: int) -> None:
    """Whatever literals a store writes in its own way, and however often a quad comes."""

    @settings(max_examples=examples)
    @given(st.lists(quads, min_size=1, max_size=40), st.booleans())
    def check_all(some: list[Quad], twice: bool) -> None:  # noqa: FBT001
        check_text(tmp_path, "".join(f"{quad} .\n" for quad in some * (1 + twice)))

    check_all()


# --- large files of lines -------------------------------------------------------------------------------

named = st.builds(Quad, iris, iris, iris | literals | st.builds(Triple, iris, iris, iris | literals), iris)
ODDITIES = [
    "",
    "# a comment",
    '# one with "quotes"',
    '# one with a "quote',
    "# <urn:a> <urn:p> <urn:o> .",
    "<urn:a><urn:p><urn:o>.",
    "<urn:a> <urn:p>\t<urn:o> . # and a comment",
    " <urn:a> <urn:p> <urn:o> <urn:g> .\r",
    "<urn:a> <urn:p> <urn:o> .\r<urn:a> <urn:p> <urn:o2> .",
    '# a comment "\r<urn:a> <urn:p> "over\n<urn:b> <urn:p> <urn:o> .\nlines" .',
    '<urn:a> <urn:p> "over\ntwo" .',
    '<urn:a> <urn:p> "over\n<urn:x> <urn:y> <urn:z> .\nthree" .',
    '<urn:a> <urn:p> "over\n_:x <urn:y> <urn:z> .\nthree" .',
    r'<urn:a> <urn:p> "\"\\" .',
    r"<urn:\u0061> <urn:p> <urn:o> .",
    '<urn:a> <urn:p> "\ufffe" .',
    '<urn:a> <urn:p> "\uffff and \uffee" .',
    '<urn:a> <urn:p> "tab\t, \x7f, \0" .',
    "<urn:an iri> <urn:p> <urn:o> .",
    '<urn:with"quote> <urn:p> <urn:o> .',
    "<urn:ä> <urn:p> <urn:\ufffe> .",
    '<urn:a> <urn:p> "_:no blank node" .',
    "_:b <urn:p> <urn:o> <urn:g> .",
]
oddities = st.sampled_from(ODDITIES)


@pytest.mark.parametrize("examples", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_lines_are_counted_as_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    """Whatever stands in a line, and between lines."""
    monkeypatch.setattr(lines, "LARGE", 0)
    monkeypatch.setattr(counting, "HELD", 100)

    @settings(max_examples=examples)
    @given(
        st.lists(named.map("{} .".format) | oddities, min_size=1, max_size=20), st.booleans(), st.booleans()
    )
    def check_all(some: list[str], twice: bool, ended: bool) -> None:  # noqa: FBT001
        check_text(tmp_path, "\n".join(["<urn:s> <urn:p> <urn:o> .", *some * (1 + twice)]) + "\n" * ended)

    check_all()


@pytest.mark.parametrize("oddity", ODDITIES)
def test_each_odd_line_is_counted_as_it_is_stored(
    oddity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LARGE", 0)
    check_text(tmp_path, f"<urn:s> <urn:p> <urn:o> .\n{oddity}\n<urn:s> <urn:p> <urn:o2> .\n")


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was loaded as a file of lines."""
    done: list[str] = []
    whole = lines.load

    def load(store: Store, source: ImportSource, tally: Tally, check: Callable[[], None]) -> None:
        done.append(source.name)
        whole(store, source, tally, check)

    monkeypatch.setattr(lines, "load", load)
    return done


def is_allowed(line: str) -> bool:
    """Whether it is a quad."""
    try:
        return bool(list(parse(line, RdfFormat.N_QUADS)))
    except SyntaxError:
        return False


@pytest.mark.parametrize("each", [23, pytest.param(1, marks=pytest.mark.soak)])
def test_every_character_is_counted_as_it_is_stored(
    tmp_path: Path, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of letters every so many, and all others: a byte, two, next to the surrogates, the last ones of a plane."""
    monkeypatch.setattr(lines, "LARGE", 0)
    letters = range(0x3000, 0xF900)
    wanted = [n for n in range(0x11000) if n % each == 0 or n not in letters or 0xD7C0 <= n < 0xE040]
    characters = [chr(n) for n in wanted if not 0xD800 <= n < 0xE000 and chr(n) not in '\n\r"\\']
    text = "".join(f'<urn:c{ord(c)}> <urn:p> "a {c} b" .\n' for c in characters)
    iris = (f"<urn:i{c}> <urn:p{c}> <urn:{c}o> <urn:{c}> .\n" for c in characters)
    text += "".join(line for line in iris if is_allowed(line))
    done = watched(monkeypatch)
    check_text(tmp_path, text)
    assert len(done) == 1


def test_lines_go_the_short_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there are blank nodes: who counts them would have to rename them as the loader does."""
    monkeypatch.setattr(lines, "LARGE", 0)
    done = watched(monkeypatch)
    monkeypatch.setattr("quadlog.seed.build.recount", pytest.fail)
    plain = '<urn:a> <urn:p> "x" .\n# empty graph <urn:e>\n'
    for number, (more, is_short) in enumerate((("", True), ("_:b <urn:p> <urn:o> .\n", False))):
        [source] = files_of([str(written(tmp_path / f"{number}.nq", plain + more))])
        done.clear()
        label, directory = built(tmp_path, [source], f"way-{number}")
        assert (len(done), label.quads) == (is_short, 1 + bool(more))
        assert check(directory, label).has_graph(NamedNode("urn:e"))


def test_an_iri_over_two_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line would be two, for everybody who reads lines."""
    for large in (0, lines.LARGE):
        monkeypatch.setattr(lines, "LARGE", large)
        [source] = files_of([str(written(tmp_path / "some.nq", "<urn:a> <urn:p> <urn:o\n> .\n"))])
        with pytest.raises(UserError, match="line 1"):
            built(tmp_path, [source])
        shutil.rmtree(tmp_path / "built")


def test_who_counts_ends_the_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of ours is known long before the loader is through."""
    monkeypatch.setattr(lines, "LARGE", 0)
    asked: list[str] = []
    whole = lines.load

    def load(store: Store, source: ImportSource, tally: Tally, check: Callable[[], None]) -> None:
        def wait() -> None:
            asked.append("in the middle")
            for _ in range(500):
                check()
                time.sleep(0.02)

        whole(store, source, tally, wait)

    monkeypatch.setattr(lines, "load", load)
    text = "<urn:a> <urn:b> <urn:c> <urn:quadlog:state:1> .\n"
    with pytest.raises(UserError, match="reserved"):
        built(tmp_path, list(files_of([str(written(tmp_path / "ours.nq", text))])))
    assert asked == ["in the middle"]


@pytest.mark.parametrize("after", ["<urn:a> <urn:p> <urn:x> .\n", None])
def test_a_file_that_is_written_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    """It is read twice: what was counted may not be what was loaded, though they are as many."""
    monkeypatch.setattr(lines, "LARGE", 0)
    file = written(tmp_path / "some.nq", "<urn:a> <urn:p> <urn:o> .\n")
    whole = lines.load

    def load(store: Store, source: ImportSource, tally: Tally, check: Callable[[], None]) -> None:
        whole(store, source, tally, check)
        file.unlink() if after is None else written(file, after)

    monkeypatch.setattr(lines, "load", load)
    with pytest.raises(UserError, match=r"some\.nq (was written while it was read|cannot be read)"):
        built(tmp_path, list(files_of([str(file)])))


def test_a_death_of_who_counts_makes_no_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LARGE", 0)
    monkeypatch.setattr(counting, "HELD", "a number")
    file = written(tmp_path / "some.nq", "<urn:a> <urn:p> <urn:o> . # a comment\n")
    with pytest.raises(StateError, match=r"counting ended with 1: TypeError"):
        built(tmp_path, list(files_of([str(file)])))


def test_a_recount_in_parts_is_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is done where quads came twice."""
    monkeypatch.setattr(recount, "PART", 300)
    lines = [
        f"<urn:s{n}> <urn:p> {(n % 7 and f'<urn:g{n}>') or '<urn:o>'} <urn:g{n % 5}> .\n" for n in range(1000)
    ]
    lines += [f'<urn:s{n}> <urn:p> "{n}"^^<{XSD}integer> .\n' for n in range(700)]
    lines += ["# empty graph <urn:nothing>\n", *lines[:3]]
    source = next(files_of([str(written(tmp_path / "some.nq", "".join(lines)))]))
    label, directory = built(tmp_path, [source])
    assert label.quads == 1700
    store = check(directory, label)
    assert store.has_graph(NamedNode("urn:nothing"))
    parts: list[int] = []
    assert recount.recount(directory / FILES, parts.append) == (int(label.signature, 16), 1700)
    assert parts == [300, 300, 100, 300, 300, 300, 100]


def test_a_folder_of_all_formats(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    written(folder / "a.ttl", "@prefix : <urn:> . :a :p 1, 02, 'x'@EN .")
    written(folder / "b.nt", "<urn:b> <urn:p> <urn:o> .\n")
    written(folder / "c.trig", "<urn:g> { <urn:c> <urn:p> true }")
    written(
        folder / "deep" / "d.rdf",
        f"""<rdf:RDF xmlns:rdf="{RDF}" xmlns:u="urn:"><rdf:Description rdf:about="urn:d">
        <u:p>x</u:p></rdf:Description></rdf:RDF>""",
    )
    written(folder / "e.jsonld", '{"@id": "urn:e", "urn:p": "x"}')
    written(folder / "README", "not data")
    with gzip.open(folder / "f.nq.gz", "wb") as file:
        file.write(b"<urn:f> <urn:p> <urn:o> <urn:h> .\n")
    sources = list(files_of([str(folder)]))
    assert [Path(source.name).name for source in sources] == [
        "a.ttl", "b.nt", "c.trig", "d.rdf", "e.jsonld", "f.nq.gz",
    ]  # fmt: skip
    label, directory = built(tmp_path, sources)
    store = check(directory, label)
    assert sorted(line.split()[0] for line in store.lines()) == [
        "<urn:a>", "<urn:a>", "<urn:a>", "<urn:b>", "<urn:c>", "<urn:d>", "<urn:e>", "<urn:f>",
    ]  # fmt: skip


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@pytest.mark.parametrize(("name", "text", "said"), [
    ("bad.nq", "<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> .\n", r"bad\.nq, line 2: "),
    ("bad.ttl", "@prefix : <urn:> .\n\n:a :b ;; .\n:a :b\n", r"bad\.ttl, line [345]: "),
    ("bad.rdf", "<rdf:RDF", r"bad\.rdf: "),
    ("bad.nq.gz", "no gzip", r"bad\.nq\.gz cannot be read"),
    ("none.nq", "# nothing\n", "no quad"),
    ("iri.nq", "<urn:a> <urn:b> <urn:c> .\n<urn:a> <urn:b> <of-no-scheme> .\n", r"iri\.nq, line 2: "),
    ("iri.ttl", "<urn:a> <urn:b> <http://host:port/> .\n", r"iri\.ttl, line 1: "),
    ("iri.nt", "<urn:a> <urn:b> <urn:\\u003E> .\n", r"iri\.nt, line 1: "),
    ("iri.trig", "<%41> { <urn:a> <urn:b> <urn:c> }\n", r"iri\.trig, line 1: "),
    ("language.nq", '<urn:a> <urn:b> "c"@abcdefghijk .\n', r"language\.nq, line 1: "),
    ("byte.nq", f'<urn:a> <urn:b> "300"^^<{XSD}byte> .\n', "xsd:byte"),
    ("byte.nt", f'<urn:a> <urn:b> "3\\u00300"^^<{XSD}\\u0062yte> .\n', "xsd:byte"),
    ("byte.ttl", f'<urn:a> <urn:b> "\\"^^<x>", "300"^^<{XSD}byte> .\n', "xsd:byte"),
    ("inner.nq", f'<urn:a> <urn:b> <<( <urn:a> <urn:b> "nan"^^<{XSD}double> )>> .\n', "xsd:double"),
    ("tag.nq", f'<urn:a> <urn:b> "c"^^<{RDF}langString> .\n', r"tag\.nq, line 1: .*langString"),
    ("tag.jsonld", f'{{"@id": "urn:a", "urn:b": {{"@value": "c", "@type": "{RDF}langString"}}}}', "rdf:langString"),
    ("ours.nq", "<urn:a> <urn:b> <urn:c> <urn:quadlog:state:1> .\n", "reserved"),
    ("ours.nq", "<urn:a> <urn:b> <urn:c> .\n# empty graph <urn:quadlog:state:1>\n", "reserved"),
])  # fmt: skip
@pytest.mark.parametrize("large", [0, 10**9])  # as a file of lines, or not
def test_what_cannot_be_read_is_named_with_its_place(  # noqa: PLR0917 - what pytest gives
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str, large: int
) -> None:
    monkeypatch.setattr(lines, "LARGE", large)
    good = written(tmp_path / "good.nt", "<urn:a> <urn:b> <urn:c> .\n" if name != "none.nq" else "")
    sources = list(files_of([str(good), str(written(tmp_path / name, text))]))
    with pytest.raises((UserError, Forbidden), match=said):
        built(tmp_path, sources)
    assert ArchiveManifest.load(tmp_path / "built") is None


def test_sources_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, said in (("folder", "has no file"), ("missing", "neither"), ("what.xyz", "cannot be told")):
        written(tmp_path / "what.xyz", "")
        with pytest.raises(UserError, match=said):
            list(files_of([str(tmp_path / name)]))


def blank_nodes(store: QuadStore) -> set[str]:
    return {label for line in store.lines() for label in re.findall(r"_:(\S+)", line)}


def test_blank_nodes_of_two_files_are_not_one_unless_that_is_asked_for(tmp_path: Path) -> None:
    names = [str(written(tmp_path / f"{n}.nq", f"_:b <urn:p> <urn:o{n}> .\n")) for n in range(2)]
    label, directory = built(tmp_path, list(files_of(names)), "two")
    assert len(blank_nodes(check(directory, label))) == 2
    label, directory = built(tmp_path, list(files_of(names)), "one", keep=True)
    assert blank_nodes(check(directory, label)) == {"b"}
    label, directory = built(tmp_path, list(files_of(names[:1])), "alone")
    assert blank_nodes(check(directory, label)) == {"b"}


def test_a_dump_gives_the_same_signature_again(tmp_path: Path) -> None:
    """With blank nodes, normalised literals and empty graphs."""
    lines = f'_:x <urn:p> "01"^^<{XSD}integer> _:g .\n<urn:s> <urn:p> _:x .\n# empty graph <urn:e>\n# empty graph _:f\n'
    label, directory = built(tmp_path, list(files_of([str(written(tmp_path / "a.nq", lines))])))
    dump = b"".join(check(directory, label).dump()).decode()
    assert "# empty graph <urn:e>" in dump
    assert "# empty graph _:f" in dump
    again, _ = built(tmp_path, list(files_of([str(written(tmp_path / "b.nq", dump))])), "again")
    assert (again.signature, again.quads) == (label.signature, label.quads)


# --- what an earlier run has built ----------------------------------------------------------------------


def test_what_was_built_of_other_sources_is_not_taken_for_these(tmp_path: Path) -> None:
    one, other = (str(written(tmp_path / f"{n}.nq", f"_:b <urn:p> <urn:o{n}> .\n")) for n in ("one", "other"))

    def again(*sources: str, keep: bool = False) -> ArchiveManifest:
        wanted = ImportOptions(sources=sources, into="", keep_blank_nodes=keep, work=tmp_path / "work")
        return commands._built(wanted, tmp_path / "work", Phases())

    first = again(one)
    Path(one).unlink()
    assert again(one) == first, "no source is read"
    with pytest.raises(UserError, match="give another --work"):
        again(other)
    with pytest.raises(UserError, match="give another --work"):
        again(one, keep=True)


# --- as one stream --------------------------------------------------------------------------------------


def parcel(tmp_path: Path) -> tuple[ArchiveManifest, Path]:
    place = tmp_path / "files"
    place.mkdir()
    for name, size in (("000012.sst", 3_000_000), ("CURRENT", 16), ("empty.log", 0), ("block", 512)):
        (place / name).write_bytes(os.urandom(size))
    (place / "LOCK").touch()
    (place / "LOG").write_text("what RocksDB did")
    return label_of(place, signature="a" * 64, quads=1), place


def test_a_stream_is_the_same_files_whatever_the_pieces(tmp_path: Path) -> None:
    label, place = parcel(tmp_path)
    stream, chance = b"".join(pieces_of(place)), random.Random(7)
    assert len(stream) == label.size
    for number, most in enumerate((1_000_000, 700, 10_000_000)):
        target = tmp_path / str(number)
        target.mkdir()
        unpacker, at = ArchiveExtractor(target), 0
        while at < len(stream):
            size = chance.randint(1, most)
            unpacker.feed(stream[at : at + size])
            at += size
        unpacker.end(label)
        assert {f.name: f.read_bytes() for f in target.iterdir()} == {
            f.name: f.read_bytes() for f in place.iterdir() if not f.name.startswith("LO")
        }
        assert label_of(target, signature="a" * 64, quads=1) == label


def test_a_stream_that_is_short_or_changed_is_refused(tmp_path: Path) -> None:
    label, place = parcel(tmp_path)
    stream = b"".join(pieces_of(place))
    for number, wrong in enumerate(
        (stream[:-1], stream[:2_000_000], stream[:600_000] + b"\0" + stream[600_001:])
    ):
        target = tmp_path / str(number)
        target.mkdir()
        unpacker = ArchiveExtractor(target)
        unpacker.feed(wrong)
        with pytest.raises(UserError, match="were announced"):
            unpacker.end(label)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", "LOCK", ".hidden"])
def test_a_stream_writes_nowhere_else(tmp_path: Path, name: str) -> None:

    info = tarfile.TarInfo(name)
    with pytest.raises(UserError, match="plain files"):
        ArchiveExtractor(tmp_path).feed(info.tobuf(tarfile.GNU_FORMAT))
    assert list(tmp_path.iterdir()) == []


def test_no_stream_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not the stream of a seed"):
        ArchiveExtractor(tmp_path).feed(b"x" * 1024)
