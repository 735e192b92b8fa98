"""Encoding of all values that have one record each: posts, heartbeats, and what is between entries and effects."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from quadlog.codec.wire import (
    CHECKPOINT,
    CUT,
    FENCE,
    HANDOVER,
    HEARTBEAT,
    POST,
    REWIND,
    SEED,
    UNDECIDED,
    VIOLATION,
    write,
)
from quadlog.core.model import (
    AgreedSetting,
    Ask,
    EffectsPosition,
    LogPosition,
    Pair,
    Peer,
    Post,
    Rank,
    RejoinedMember,
    RejoinReport,
    View,
)
from quadlog.core.records import (
    CatchUpProgress,
    Checkpoint,
    Cut,
    EffectsPlace,
    Fence,
    Handover,
    Heartbeat,
    Reached,
    Rewind,
    Scrub,
    Seed,
    Term,
    Undecided,
    Violation,
    ViolationKind,
    WorkerState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Single: TypeAlias = (
    Post | Heartbeat | Cut | Fence | Handover | Rewind | Seed | Checkpoint | Undecided | Violation
)
"""A value that has one record."""


def encode(value: Single) -> bytes:
    """Encode a value that has one record."""
    schema_id, record_of, _ = _FORMATS[type(value)]
    return write(schema_id, record_of(value))


def _as_they_are(kind: type[Single], others: str) -> tuple[str, ...]:
    """Return the names of all fields but these: the record of a value has them, too."""
    return tuple(field.name for field in fields(kind) if field.name not in others.split())


_OF_POST: Final = _as_they_are(
    Post, "view ballot rank joining base beside effects changes queue added asks settings rejoined"
)
_OF_HEARTBEAT: Final = _as_they_are(Heartbeat, "applied scrub catching_up")


def _post_record(post: Post) -> dict[str, Any]:
    return {name: getattr(post, name) for name in _OF_POST} | {
        "view": _view_record(post.view),
        "ballot": post.ballot and _view_record(post.ballot),
        "rank": {"epoch": post.rank.epoch, "members": post.rank.members, "ids": post.rank.ids},
        "joining": post.joining and _view_record(post.joining),
        "base": {"index": post.base.index, "chain": post.base.chain},
        "beside": post.beside and {"index": post.beside.index, "chain": post.beside.chain},
        "effects": {"term": post.effects.term, "index": post.effects.index},
        "changes": [_peer_records(peers) for peers in post.changes],
        "queue": _pair_records(post.queue),
        "added": _pair_records(post.added),
        "asks": [ask._asdict() for ask in post.asks],
        "settings": [asdict(one) for one in post.settings],
        "rejoined": post.rejoined and post.rejoined._asdict(),
    }


def _post(record: dict[str, Any]) -> Post:
    rank, view = record["rank"], _view(record["view"])
    return Post(
        node=record["node"],
        incarnation=record["incarnation"],
        sequence=record["sequence"],
        base_sequence=record["base_sequence"],
        view=view,
        ballot=record["ballot"] and _view(record["ballot"]),
        dropped=record["dropped"],
        rank=Rank(rank["epoch"], not view.before, rank["members"], tuple(rank["ids"])),
        joining=record["joining"] and _view(record["joining"]),
        given_up=tuple(record["given_up"]),
        base=LogPosition(**record["base"]),
        beside=record["beside"] and LogPosition(**record["beside"]),
        effects=EffectsPosition(**record["effects"]),
        whole=record["whole"],
        unheard=tuple(record["unheard"]),
        changes=tuple(_peers(peers) for peers in record["changes"]),
        counter=record["counter"],
        queue=_pairs(record["queue"]),
        added=_pairs(record["added"]),
        asks=tuple(Ask(**ask) for ask in record["asks"]),
        full=record["full"],
        settings=tuple(AgreedSetting(**one) for one in record["settings"]),
        rejoined=record["rejoined"] and RejoinReport(**record["rejoined"]),
    )


def _pair_records(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    return [{"timestamp": timestamp, "id": name, "digest": digest} for timestamp, name, digest in pairs]


def _pairs(records: Iterable[dict[str, Any]]) -> tuple[Pair, ...]:
    return tuple(Pair(record["timestamp"], record["id"], record["digest"]) for record in records)


def _peer_records(peers: Iterable[Peer]) -> list[dict[str, str]]:
    return [peer._asdict() for peer in peers]


def _peers(records: Iterable[dict[str, str]]) -> tuple[Peer, ...]:
    return tuple(Peer(**record) for record in records)


def _view_record(view: View) -> dict[str, Any]:
    return {
        "epoch": view.epoch,
        "members": view.members,
        "parent": view.parent,
        "home": view.home,
        "returned": [one._asdict() for one in view.returned],
        "peers": _peer_records(view.peers),
        "before": _peer_records(view.before),
    }


def _view(record: dict[str, Any]) -> View:
    return View(
        epoch=record["epoch"],
        members=tuple(record["members"]),
        parent=record["parent"],
        home=record["home"],
        returned=tuple(RejoinedMember(**one) for one in record["returned"]),
        peers=_peers(record["peers"]),
        before=_peers(record["before"]),
    )


def _violation(record: dict[str, Any]) -> Violation:
    record["kind"] = ViolationKind(record["kind"])
    return Violation(**record)


def _handover_record(handover: Handover) -> dict[str, Any]:
    return asdict(handover) | {"terms": [term._asdict() for term in handover.terms]}


def _handover(record: dict[str, Any]) -> Handover:
    record["terms"] = tuple(Term(**term) for term in record["terms"])
    return Handover(**record)


def _seed(record: dict[str, Any]) -> Seed:
    record["sources"] = tuple(record["sources"])
    return Seed(**record)


def _checkpoint_record(checkpoint: Checkpoint) -> dict[str, Any]:
    reached = checkpoint.reached
    return {
        "index": checkpoint.last.index,
        "chain": checkpoint.last.chain,
        "agreed": {
            "topic_id": checkpoint.agreed_id,
            "offset": reached.offset,
            "index": reached.end.index,
            "chain": reached.end.chain,
            "epoch": reached.epoch,
            "held": reached.held,
        },
        "effects": {"topic_id": checkpoint.effects_id, **asdict(checkpoint.effects)},
        "duties": [_handover_record(handover) for handover in checkpoint.duty or ()],
        "seed": checkpoint.seed and asdict(checkpoint.seed),
    }


def _checkpoint(record: dict[str, Any]) -> Checkpoint:
    agreed, effects = record["agreed"], record["effects"]
    duties = [_handover(said) for said in record["duties"]]
    return Checkpoint(
        last=LogPosition(record["index"], record["chain"]),
        reached=Reached(
            agreed["offset"], LogPosition(agreed["index"], agreed["chain"]), agreed["epoch"], agreed["held"]
        ),
        effects=EffectsPlace(effects["offset"], effects["index"], effects["attempt"], effects["epoch"]),
        duty=(duties[0], duties[1]) if duties else None,
        seed=record["seed"] and _seed(record["seed"]),
        agreed_id=agreed["topic_id"],
        effects_id=effects["topic_id"],
    )


def _heartbeat_record(beat: Heartbeat) -> dict[str, Any]:
    record = {name: getattr(beat, name) for name in _OF_HEARTBEAT}  # a quarter of the time of `asdict`
    return record | {
        "applied_index": beat.applied.index,
        "applied_chain": beat.applied.chain,
        "scrub": beat.scrub and asdict(beat.scrub),
        "catching_up": beat.catching_up and asdict(beat.catching_up),
    }


def _heartbeat(record: dict[str, Any]) -> Heartbeat:
    applied = LogPosition(record.pop("applied_index"), record.pop("applied_chain"))
    record["state"] = WorkerState(record["state"])
    record["scrub"] = record["scrub"] and Scrub(**record["scrub"])
    record["catching_up"] = record["catching_up"] and CatchUpProgress(**record["catching_up"])
    return Heartbeat(applied=applied, **record)


_FORMATS: Final[
    dict[type[Single], tuple[int, Callable[[Any], dict[str, Any]], Callable[[dict[str, Any]], Single]]]
] = {
    Post: (POST, _post_record, _post),
    Heartbeat: (HEARTBEAT, _heartbeat_record, _heartbeat),
    Cut: (CUT, asdict, lambda record: Cut(**record)),
    Fence: (FENCE, asdict, lambda record: Fence(**record)),
    Handover: (HANDOVER, _handover_record, _handover),
    Rewind: (REWIND, asdict, lambda record: Rewind(**record)),
    Seed: (SEED, asdict, _seed),
    Checkpoint: (CHECKPOINT, _checkpoint_record, _checkpoint),
    Undecided: (UNDECIDED, asdict, lambda record: Undecided(**record)),
    Violation: (VIOLATION, asdict, _violation),
}
"""Schema, and the functions to and from the fields of a record."""

DECODERS: Final = {schema_id: value_of for schema_id, _, value_of in _FORMATS.values()}
