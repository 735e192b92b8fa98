"""`quadlog tx revert`: the inverse of a transaction, once, and what has changed since."""

from __future__ import annotations

import io
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest

from quadlog.cli import main
from tests.support.clusters.cluster import Cluster, all_equal, index_of, lines_with, name, nothing_logged
from tests.support.labs import quadlog

if TYPE_CHECKING:
    import httpx


def revert(cluster: Cluster, what: str, *more: str, master: int = 0, status: int = 0) -> str:
    """What it says; in this process, since a Python of its own would take longer than all that it does."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(said), redirect_stderr(said):
        patched.setattr(
            sys, "argv", ["quadlog", "tx", "revert", what, "--at", cluster.masters[master], *more]
        )
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == status, said.getvalue()
    return said.getvalue()


def test_the_command(cluster: Cluster) -> None:
    subject = name()
    answer = done(cluster, f"INSERT DATA {{ {subject} <urn:n> 0 }}")
    told = quadlog("tx", "revert", answer.headers["Quadlog-Tx"], "--at", cluster.masters[0])
    assert (told.returncode, "reverted by " in told.stdout) == (0, True), told.stderr
    told = quadlog("tx", "revert", "never-used", "--at", cluster.masters[0])
    assert (told.returncode, "knows no transaction" in told.stderr) == (1, True)
    assert not lines_with(cluster, subject)


def done(cluster: Cluster, text: str, *, master: int = 0, key: str = "") -> httpx.Response:
    answer = cluster.update(text, master=master, **({"Idempotency_Key": key} if key else {}))
    assert answer.status_code == 204, answer.text
    return answer


def test_an_insert_is_reverted_once(cluster: Cluster) -> None:
    subject, key = name(), f"import {uuid.uuid4()}/?#"
    done(cluster, f"INSERT DATA {{ {subject} <urn:n> 0 }}")
    cluster.wait_until_equal()
    answer = done(cluster, f"INSERT DATA {{ {subject} <urn:n> 0 , 1 , 'a\\n\"b' }}", key=key)
    for master in range(3):
        said = revert(cluster, key, master=master)
        assert "2 quads inserted, 0 deleted" in said
        assert answer.headers["Quadlog-Tx"] in said
        assert "reverted by " in said
        assert f"at index {index_of(answer) + 1} " in said
        assert ("CHANGED SINCE: 2 that it inserted are gone" in said) is (master > 0)
        cluster.wait_until_equal()
    assert [line.split()[2][:2] for line in lines_with(cluster, subject)] == ['"0']
    with nothing_logged(cluster):
        revert(cluster, answer.headers["Quadlog-Tx"], master=1)
    all_equal(cluster)


def test_a_where_with_blank_nodes_and_graphs_is_reverted(cluster: Cluster) -> None:
    subject, graph, other = name(), name(), name()
    data = f"{subject} <urn:n> 1 , [ <urn:of> {subject} ] . GRAPH {graph} {{ {subject} <urn:n> 2 , [] }}"
    done(cluster, f"INSERT DATA {{ {data} }}")
    before = lines_with(cluster, subject)
    assert sum("_:" in line for line in before) == 3
    insert = f"{subject} <urn:new> [] . GRAPH {other} {{ [] <urn:of> {subject} }}"
    where = f"{subject} ?p ?o OPTIONAL {{ ?b ?q {subject} }}"
    change = f"DELETE {{ {subject} ?p ?o . ?b ?q {subject} }} INSERT {{ {insert} }} WHERE {{ {where} }}"
    text = f"{change} ; DROP GRAPH {graph}"
    answer = done(cluster, text)
    after = lines_with(cluster, subject)
    assert not set(before) & set(after)
    with nothing_logged(cluster):
        said = revert(cluster, answer.headers["Quadlog-Tx"], "--dry-run")
        assert "nothing was submitted" in said
        assert "CHANGED SINCE" not in said
        assert lines_with(cluster, subject) == after
    said = revert(cluster, answer.headers["Quadlog-Tx"])
    assert f"{len(after)} quads inserted, {len(before)} deleted" in said
    assert "stay, empty" in said
    assert lines_with(cluster, subject) == before
    # And there and back again.
    undone = said.split("reverted by ")[1].split()[0]
    revert(cluster, undone)
    assert lines_with(cluster, subject) == after
    revert(cluster, said.split("Idempotency-Key ")[1].strip(" )\n"))
    assert lines_with(cluster, subject) == after, "once"
    all_equal(cluster)


def test_what_has_changed_since_is_told(cluster: Cluster) -> None:
    subject = name()
    done(cluster, f"INSERT DATA {{ {subject} <urn:n> 1 , 2 }}")
    answer = done(
        cluster,
        f"DELETE {{ {subject} <urn:n> ?n }} INSERT {{ {subject} <urn:n> 3 , 4 }} WHERE {{ {subject} <urn:n> ?n }}",
    )
    done(cluster, f"INSERT DATA {{ {name()} <urn:n> 1 }}")
    first = done(
        cluster, f"DELETE DATA {{ {subject} <urn:n> 3 , 99 }} ; INSERT DATA {{ {subject} <urn:n> 5 }}"
    )
    second = done(cluster, f"INSERT DATA {{ {subject} <urn:n> 1 }}")
    done(cluster, f"DELETE DATA {{ {subject} <urn:n> 4 }}")
    done(cluster, f"INSERT DATA {{ {subject} <urn:n> 4 }}")
    said = revert(cluster, answer.headers["Quadlog-Tx"], "--dry-run", "--shown", "2")
    assert f"of 5 entries since, up to index {index_of(answer) + 5}, 4 changed the same quads" in said
    for later in (first, second):
        assert f"entry {index_of(later)} ({later.headers['Quadlog-Tx']}): 1 of them" in said
    assert "and 2 more" in said
    assert "CHANGED SINCE: 1 that it inserted are gone, 1 that it deleted are there again" in said
    number = "^^<http://www.w3.org/2001/XMLSchema#integer> ."
    assert f'gone already: {subject} <urn:n> "3"{number}' in said
    assert f'there again: {subject} <urn:n> "1"{number}' in said
    revert(cluster, answer.headers["Quadlog-Tx"])
    assert [line.split()[2][1] for line in lines_with(cluster, subject)] == ["1", "2", "5"]


def test_graphs_that_no_patch_can_name_are_told(cluster: Cluster) -> None:
    made, dropped = name(), name()
    done(cluster, f"CREATE GRAPH {dropped}")
    answer = done(cluster, f"CREATE GRAPH {made} ; DROP GRAPH {dropped} ; INSERT DATA {{ {made} <urn:n> 1 }}")
    said = revert(cluster, answer.headers["Quadlog-Tx"])
    assert f"not reverted: {made}, an empty graph that it made, stays" in said
    assert f"not reverted: {dropped}, an empty graph that it dropped, does not come back" in said
    assert not lines_with(cluster, made + " <")
    done(cluster, f"DROP GRAPH {made}")


def test_where_there_is_nothing_to_revert(cluster: Cluster) -> None:
    subject, key = name(), str(uuid.uuid4())
    nothing = done(cluster, f"DELETE DATA {{ {subject} <urn:n> 1 }}")
    rejected = cluster.update(f"CLEAR GRAPH {subject}", Idempotency_Key=key)
    assert rejected.status_code == 409
    with nothing_logged(cluster):
        assert "nothing to revert" in revert(cluster, nothing.headers["Quadlog-Tx"])
        assert "was rejected, nothing to revert" in revert(cluster, key)
        assert "knows no transaction" in revert(cluster, "never-used", status=1)
        assert "cannot be reached" in revert(cluster, key, "--at", "http://127.0.0.1:1", status=1)
