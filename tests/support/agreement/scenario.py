"""Scenarios: text that reads like the protocol's description, with what comes of it filled in.

A scenario is a list of blocks: commands, a line `----`, and the state of every master after them.

    limit 2                     a post holds two pairs of the queue, a turn adds no more than two entries
    lag 20                      a member is given up after twenty seconds
    recovery Quorum             what the sides of a split do; without it, Smart
    masters m1 m2 m3            these are the configured masters, each in a data centre of its own
    masters m1:uk m2:uk m3:us   or in these
    synchronised U1..U10        all of them agreed on these before the story begins
    quorum N                    so many data centres must have a synchronous transaction
    timeout 5                   it is rolled back after five seconds
    submit m1 A B               a client gives m1 A, then B
    sync m1 A B                 likewise, and they are synchronous
    found m1 A                  m1 hears that A is synchronous by its effect
    promote m1 5                m1 is asked to decide for five seconds
    acquire m2 A B              A's and B's payloads reach m2's data centre
    acquire all                 every payload reaches every data centre
    round                       everyone posts, then everyone collects everyone's post
    round m1<->m2               likewise, but only these two hear each other
    rounds 10 m1<->m2 m2<->m3   ten of each of these
    follow m3 m1                m3 reads what m1's agreed topic holds beside its own log
    post m1                     m1 posts
    collect m2 m1               m2 collects what m1 has posted since it did so last
    miss m2 m1                  m2 will never collect what m1 has posted since
    stranger x9                 a master that is not configured posts to all
    crash m1                    m1 loses what it had not saved, and starts again: it collects all posts anew
    lose m1                     likewise, and it has lost its disk: it is blank
    void m2 m1                  m2 sees that m1's topic of posts went back to an older copy
    sleep m1                    m1's process stands still
    wake m1                     it goes on
    pass 30                     half a minute in which nobody says anything
    newcomer m4:us              a master comes that is no peer yet, in a data centre
    add m1 m4                   m1 is asked to make m4 a peer
    remove m1 m3                m1 is asked to make m3 one no more
    force m1 m3 m1 m2           likewise, and told that just m1 and m2 are left
    set m1 max-peer-lag 5       m1 is asked to set what all share

A star marks a member of a view that does not count for a majority. Behind a view stand the peers that it names, and
those before an undecided change.
Time passes by a second a command, so that whoever has something to say, or was silent, posts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.cluster_settings import options_of as set_options
from quadlog.core.membership.electorate import FORCED, FORCED_IN, options_of
from quadlog.core.messages import AgreementLimits, FoundSynchronous, Promoted
from quadlog.core.model import Transaction, TransactionKind
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, decision_in, marked
from tests.support.agreement.cluster import Member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import Pair, Peer, View

SECOND = 1000.0

SPLIT = """
lag 20
masters m1 m2 m3
submit m1 A
acquire all
round
round
submit m3 B
submit m1 C
acquire m2 C
rounds 20 m1<->m2
post m3
rounds 2 m1<->m2
post m3
submit m3 D
round
follow m3 m1
"""
"""m3 was apart, is heard again, and has read the log of the others beside its own."""


class Scenario:
    """Runs one scenario's commands."""

    def __init__(self) -> None:
        """Nobody is there yet."""
        self.members: dict[str, Member] = {}
        self.names: dict[bytes, str] = {}
        self.synchronous: set[str] = set()
        self.asked: dict[str, Transaction] = {}
        """Changes of the peers."""
        self.at = 0.0
        self.asleep: set[str] = set()
        self.limits = AgreementLimits()
        self.settings = ClusterSettings(split_recovery=SplitRecovery.SMART, max_peer_lag=inf)
        self.collected: dict[tuple[str, str], int] = {}
        """Of each master (first) how many posts of each other (second) are behind it."""

    def run(self, text: str) -> str:
        """The scenario's text with every answer as it comes out now."""
        out = []
        for block in re.split(r"\n\n+", text.strip()):
            commands, separator, _ = block.partition("\n----")
            if not separator and all(line.startswith("#") for line in commands.splitlines()):
                out.append(commands)
                continue
            for line in commands.splitlines():
                words = line.split("#")[0].split()
                if words:
                    self._pass()
                    getattr(self, f"do_{words[0]}")(*words[1:])
            out.append(f"{commands}\n----\n{self.state()}")
        return "\n\n".join(out) + "\n"

    def _pass(self) -> None:
        """A second."""
        self.at += SECOND
        for name, member in self.members.items():
            if name not in self.asleep:
                member.wake(self.at)

    # --- commands -----------------------------------------------------------------------------------

    def do_limit(self, pairs: str, posts: str = "") -> None:
        self.limits = AgreementLimits(post=int(pairs), turn=int(pairs))
        if posts:
            self.limits = replace(self.limits, snapshot_every=int(posts))

    def do_lag(self, seconds: str) -> None:
        self.settings = replace(self.settings, max_peer_lag=float(seconds))

    def do_recovery(self, name: str) -> None:
        self.settings = replace(self.settings, split_recovery=SplitRecovery(name))

    def do_quorum(self, *formula: str) -> None:
        self.settings = replace(self.settings, synchro_quorum=" ".join(formula))

    def do_timeout(self, seconds: str) -> None:
        self.settings = replace(self.settings, synchro_timeout=float(seconds))

    def do_sync(self, master: str, *names: str) -> None:
        self.synchronous.update(names)
        self.do_submit(master, *names)

    def do_found(self, master: str, name: str) -> None:
        member = self.members[master]
        point = next(point for point, pair in member.log if self._name(pair) == name)
        member.core.step(FoundSynchronous(point, self._transaction(name).id), member.now(self.at))

    def do_promote(self, master: str, seconds: str) -> None:
        member = self.members[master]
        member.core.step(Promoted(self.at + float(seconds) * SECOND), member.now(self.at))

    def do_masters(self, *names: str) -> None:
        pairs = (name.partition(":") for name in names)
        masters = {name: centre or name for name, _, centre in pairs}
        self.members = {
            name: Member(name, masters, limits=self.limits, settings=self.settings) for name in masters
        }
        self.collected = {}

    def do_synchronised(self, names: str) -> None:
        first, last = (int(word[1:]) for word in names.split(".."))
        leader = next(iter(self.members))
        for number in range(first, last + 1):
            self.do_submit(leader, f"{names[0]}{number}")
        self.do_acquire("all")
        for _ in range(3):
            self.do_round()

    def do_submit(self, master: str, *names: str) -> None:
        for name in names:
            self._pass()
            self.members[master].submit(self._transaction(name), self.at)

    def do_acquire(self, master: str, *names: str) -> None:
        if master == "all":
            everything = {t.key: t for member in self.members.values() for t in member.kafka.values()}
            for member in self.members.values():
                for key, transaction in everything.items():
                    if key not in member.kafka:
                        member.acquire(transaction, self.at)
            return
        for name in names:
            self.members[master].acquire(self._transaction(name), self.at)

    def do_round(self, link: str | None = None) -> None:
        members = [self.members[name] for name in link.split("<->")] if link else list(self.members.values())
        self._pass()
        for member in members:
            member.turn(self.at)
        for member in members:
            for other in members:
                if other is not member:
                    self.do_collect(member.name, other.name)

    def do_rounds(self, count: str, *links: str) -> None:
        for _ in range(int(count)):
            for link in links or (None,):
                self.do_round(link)

    def do_follow(self, master: str, source: str) -> None:
        self.members[master].follow(self.members[source], len(self.members[source].published), self.at)

    def do_post(self, master: str) -> None:
        assert self.members[master].turn(self.at), f"{master} has nothing to say"

    def do_collect(self, master: str, sender: str) -> None:
        posts = self.members[sender].posts
        for post in posts[self.collected.get((master, sender), 0) :]:
            self.members[master].hear(post, self.at)
        self.do_miss(master, sender)

    def do_miss(self, master: str, sender: str) -> None:
        self.collected[master, sender] = len(self.members[sender].posts)

    def do_stranger(self, name: str) -> None:
        example = next(member.posts[-1] for member in self.members.values() if member.posts)
        for member in self.members.values():
            member.hear(replace(example, node=name, sequence=example.sequence + 1), self.at)

    def do_crash(self, master: str) -> None:
        self.members[master].restart(self.at)
        for sender in self.members:
            self.collected[master, sender] = 0

    def do_lose(self, master: str) -> None:
        self.members[master].lose_disk(self.at)
        for sender in self.members:
            self.collected[master, sender] = 0

    def do_void(self, master: str, lost: str) -> None:
        member = self.members[master]
        member.void(lost, member.core.members[lost].incarnation, self.at)

    def do_pass(self, seconds: str) -> None:
        for _ in range(int(seconds)):
            self._pass()

    def do_sleep(self, master: str) -> None:
        self.asleep.add(master)

    def do_wake(self, master: str) -> None:
        self.asleep.remove(master)

    def do_newcomer(self, name: str) -> None:
        node, _, centre = name.partition(":")
        masters = next(iter(self.members.values())).masters | {node: centre or node}
        self.members[node] = Member(node, masters, limits=self.limits, settings=self.settings, joins=True)

    def do_add(self, master: str, peer: str) -> None:
        self._ask(master, f"+{peer}", options_of(peer, self.members[peer].dc))

    def do_remove(self, master: str, peer: str) -> None:
        self._ask(master, f"-{peer}", options_of(peer))

    def do_force(self, master: str, peer: str, *left: str) -> None:
        view = self.members[master].core.view
        said = {FORCED: " ".join(left), FORCED_IN: view.id.hex()}
        self._ask(master, f"!{peer}", options_of(peer) | said)

    def do_set(self, master: str, name: str, value: str) -> None:
        self._ask(master, f"{name}={value}", set_options(name, value, by="ada"))

    def _ask(self, master: str, name: str, options: dict[str, str]) -> None:
        self.asked[name] = replace(self._transaction(name), kind=TransactionKind.CONFIG, options=options)
        self.do_submit(master, name)

    # --- what comes of it -----------------------------------------------------------------------------

    def state(self) -> str:
        """A line a master: what is agreed, what waits, and which of it lacks its payload."""
        return "\n".join(self._line(member) for member in self.members.values())

    def _line(self, member: Member) -> str:
        agreed = self._names(pair for _, pair in member.log)
        core = member.core
        waiting = sorted(pair for name in core.queue._first for pair in core.queue.pairs(name))
        shown = [self._name(p) if core.queue.transaction(p) else f"({self._name(p)})" for p in waiting]
        line = f"{member.name} agreed: {agreed} | incoming: {' '.join(shown) or '-'}"
        if asks := sorted(core._progress.asks):
            line += f" | asks: {' '.join(asks)}"
        line += self._standing(member)
        ignored = ", ".join(f"{name} x{count}" for name, count in sorted(core.ignored.items()))
        return f"{line} | ignored: {ignored}" if ignored else line

    def _standing(self, member: Member) -> str:
        """Where it stands, if that is not where all began."""
        core = member.core
        standing = core.standing
        said = f" | view {core.view.epoch}: {_members(core.view)}" if core.view.epoch > 1 else ""
        if core.view.peers:
            said += f" of {_names(core.view.peers)}"
        if core.view.before:
            said += f", before {_names(core.view.before)}"
        if core.is_blank:
            said += " | blank"
        if standing.outside:
            said += " | outside"
        if standing.fork is not None:
            said += f" | fork: {standing.fork}"
        said += self._undecided(core)
        if standing.settings:
            said += f" | set: {' '.join(f'{one.name}={one.value}' for one in standing.settings)}"
        if standing.given_up:
            said += f" | gave up: {' '.join(standing.given_up)}"
        if standing.joining is not None:
            said += f" | asks into: {_members(standing.joining)}"
        if standing.ballot is not None and standing.ballot.epoch > core.view.epoch:
            said += f" | voted for: {_members(standing.ballot)}"
        return said

    def _undecided(self, core: Agreement) -> str:
        waiting = [self.names[one.id] for one in core.limbo.undecided]
        return f" | undecided: {' '.join(waiting)}" if waiting else ""

    def _names(self, pairs: object) -> str:
        names = [self._name(pair) for pair in pairs]  # type: ignore[attr-defined]
        out: list[str] = []
        while names:
            run = 1
            while run < len(names) and _follows(names[run - 1], names[run]):
                run += 1
            out.append(f"{names[0]}..{names[run - 1]}" if run > 1 else names[0])
            del names[:run]
        return " ".join(out) or "-"

    def _name(self, pair: Pair) -> str:
        decision = decision_in(pair.digest)
        return self.names[pair.id] if decision is None else f"{decision.kind}({decision.index})"

    def _transaction(self, name: str) -> Transaction:
        digest = blake2b(name.encode(), digest_size=32).digest()
        self.names[digest[:16]] = name
        if name in self.asked:
            return self.asked[name]
        options = {COMMIT_MODE: CommitMode.SYNC.value} if name in self.synchronous else {}
        return Transaction(id=digest[:16], digest=marked(digest, options), options=options)


def _names(peers: Iterable[Peer]) -> str:
    return " ".join(peer.node for peer in peers)


def _members(view: View) -> str:
    return " ".join(f"{name}*" if name in view.blank else name for name in view.members)


def _follows(one: str, other: str) -> bool:
    a, b = re.fullmatch(r"([A-Z])(\d+)", one), re.fullmatch(r"([A-Z])(\d+)", other)
    return bool(a and b and a[1] == b[1] and int(a[2]) + 1 == int(b[2]))
