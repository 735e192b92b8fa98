"""Weather: the real core under one seeded scheduler that owns time, order and chance.

Masters of several data centres, with clocks of their own that jump, post to topics that others read late,
twice or in leaps. Links are cut, one way too; who hears a post passes it on where it is not heard. Payloads
arrive late or not at all; clients try the same id at several masters; a process may be stopped for a while,
hear nothing, die before any single effect, or lose its disk. Masters are added and removed meanwhile.

What lies between them is in `links`, how posts come in `delivery`.  Safety is asserted after every step (`safety`);
liveness once the weather clears, and of each side of a cut.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import TYPE_CHECKING

from quadlog.core.approval import Approval
from quadlog.core.cluster_settings import SplitApproval, SplitRecovery, after, names_setting, set_by
from quadlog.core.cluster_settings import options_of as set_options
from quadlog.core.membership.electorate import changed, options_of
from quadlog.core.membership.failure_detector import PUT_OFF_MS
from quadlog.core.model import LogPosition, Transaction, TransactionKind
from quadlog.core.synchronous import COMMIT_MODE, CommitMode, marked
from tests.support.agreement.coverage import Coverage
from tests.support.agreement.delivery import Delivery
from tests.support.agreement.links import Links
from tests.support.agreement.witnesses import some_witnesses
from tests.support.agreement.world import TINY, USUAL, Event, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.messages import AgreementLimits, Save
    from quadlog.core.model import AgreedSetting, Peer, View
    from tests.support.agreement.cluster import Logged, Member

FULL = range(12, 19)
"""Of 28 seeds these have full effects topics: none of those that are known for what else they find (`first` in
`tests/mutants/mutants.toml`), which stay what they are."""
QUORUM = frozenset({1, 2, 7, 20, 21, 25, 26, 27})
"""Of 28 seeds in these a side without a majority waits; in all others each side goes on (likewise)."""
OTHER = {12: SplitRecovery.SIMPLE, 14: SplitRecovery.NONE, 16: SplitRecovery.NONE, 18: SplitRecovery.NONE}
"""What the sides of a split do in others of them (likewise)."""
CHANGING = frozenset({2, 7, 13, 15, 20, 26})
"""In these somebody changes settings that all share, now and then (likewise)."""
SYNCHRONOUS = frozenset({2, 12, 14, 15, 21, 26})
"""In these some transactions are synchronous (likewise)."""
APPROVING = 80_000_000
"""In runs with this seed or a greater one an operator approves that a side gives way."""
TWINS = 90_000_000
"""In runs with this seed or a greater one clients use an id a second time; in every other one an operator approves."""
QUORUMS = ("N/2 + 1", "N/2 + 1", "N", "(N + 1)/2", "1")
"""What a synchronous quorum may be."""
CLEAR = 400
"""Rounds after which everything must be agreed once nothing fails any more."""


def _drawn(seed: int) -> SplitRecovery:
    """What a split does in the run of this seed."""
    return SplitRecovery.QUORUM if seed % 28 in QUORUM else OTHER.get(seed % 28, SplitRecovery.SMART)


def _approves(seed: int) -> bool:
    """Return whether an operator approves in the run of this seed."""
    return APPROVING <= seed < TWINS or (seed >= TWINS and seed % 2 == 1)


def _approvals(seed: int, *, is_manual: bool) -> tuple[random.Random, float]:
    """How often an operator approves, as long as a side does not give way without it; and with which chance."""
    chance = random.Random(f"{seed}/approval")
    return chance, chance.choice((0.05, 0.3)) if is_manual else 0.0


class Weather:
    """One run."""

    world_of = World

    def __init__(
        self,
        seed: int,
        *,
        masters: int | None = None,
        limits: AgreementLimits = USUAL,
        recovery: SplitRecovery | None = None,
        synchronous: bool = False,
        approval: bool = False,
    ) -> None:
        """Everything that follows is decided by the seed, but what else is given."""
        self.seed, self.random = seed, random.Random(seed)
        chance = self.random
        count = masters or chance.choice((2, 3, 3, 3, 4, 5, 6, 7))
        centres = chance.randint(min(2, count), min(5, count))
        names = [f"m{number}" for number in range(1, count + 1)]
        placed = {
            name: f"dc{number + 1 if number < centres else chance.randint(1, centres)}"
            for number, name in enumerate(names)
        }
        self.lag = chance.choice((400.0, 1000.0, 2500.0)) * (4 if limits is TINY else 1)
        leaps = chance.choice((0.0, 0.05, 0.3))
        self.skews = chance.choice(((0,), (0, -40, 60), (0, -3000, 7_200_000, -7_200_000)))
        will = random.Random(f"{seed}/peers")
        newcomers = will.choice((0, 0, 1, 2)) if masters is None else 0
        for number in range(count + 1, count + 1 + newcomers):
            placed[f"m{number}"] = f"dc{will.randint(1, centres + 1)}"
        self.restless = will.choice((0.0, 0.002, 0.01)) if masters is None else 0.0
        """How often somebody asks to add or to remove a peer."""
        self._will, self._need = will, random.Random(f"{seed}/need")
        self._may_force = masters is None and seed % 5 == 3
        """Whether somebody names half of the data centres as all that is left: once, or each half might."""
        put_off = random.Random(f"{seed}/put off").choice(
            (0, 0, 0, 0, 0, 0, 0, 4)
        )  # who is put off does less
        witnesses = some_witnesses(seed, placed, count) if masters is None else frozenset[str]()
        self._is_patient = masters is None and random.Random(f"{seed}/patient").random() < 0.08
        """Nobody is given up for silence, as by default: only who lost its disk."""
        lag = float("inf") if self._is_patient else self.lag
        self._sync = random.Random(f"{seed}/synchronous")
        is_sync = masters is None and (synchronous or seed % 28 in SYNCHRONOUS)
        self._synchronous = self._sync.choice((0.1, 0.5, 1.0)) if is_sync else 0.0
        """Share of the transactions that are synchronous."""
        self._word, self._approving = _approvals(seed, is_manual=approval or _approves(seed))
        quorum, time_out = self._sync.choice(QUORUMS), self.lag * self._sync.choice((0.2, 1.0, 5.0))
        self.world = self.world_of(
            placed,
            limits=limits,
            lag=lag,
            newcomers=newcomers,
            put_off=put_off,
            witnesses=witnesses,
            recovery=recovery or _drawn(seed),
            quorum=quorum,
            time_out=time_out,
            approval=SplitApproval.MANUAL if self._approving else SplitApproval.AUTO,
        )
        self.world.safety.limbo.is_used = is_sync
        self.masters, self.members = placed, list(self.world.members.values())
        self.coverage, self.links, self.at = Coverage(), Links(placed.values()), 5000.0
        self.delivery = Delivery(
            self.world.members,
            self.links,
            chance=chance,
            leaps=leaps,
            coverage=self.coverage,
            hear=lambda reader, sender, number: self._play("hear", reader, sender.name, number),
        )
        self._slower = 10 if limits is TINY else 1
        self._changing = 0.002 if seed % 28 in CHANGING and masters is None else 0.0
        """How often an operator changes a setting."""
        self._choice, self._sight, self._tide = (
            random.Random(f"{seed}/{name}") for name in ("settings", "void", "full")
        )
        self._filling = self._tide.choice((0.0005, 0.005)) if seed % 28 in FULL else 0.0
        """How often the effects topic of a data centre takes no records, or takes some again, as a master has it."""
        self._stopped, self._acted = dict[str, float](), dict[str, float]()
        self._numbers: dict[tuple[bytes, bytes], int] = {}
        self._compared: dict[tuple[str, str], tuple[object, int, object]] = {}
        """Of whom and whom: what was there, and what was known of it, when all of it was last acquired."""
        self._standing = {member.name: member.core.standing for member in self.members}
        for member in self.members:
            self._watch(member)
            self._set_clock(member)
        self._fate = random.Random(f"{seed}/disks")
        self.fragile = self._fate.choice((0.0, 0.0003, 0.002))
        """How often a master loses its disk, if it may; hundreds of times as often when the wind turns."""

    def _watch(self, member: Member) -> None:
        def saved(save: Save, lost: Sequence[Logged]) -> None:
            self.world.safety.saved(member, save, lost)
            if save.entries:
                self.coverage.reach("add")

        member.saved = saved

    # --- what happens -------------------------------------------------------------------------------

    def run(self) -> None:
        """Bad weather, then clear."""
        for _ in range(self.random.randint(1, 6)):
            self.change()
            for _ in range(self.random.randint(50, 1500)):
                self.step()
        if self.random.random() < 0.25 and not self.links.deaf and not self._is_patient:
            self._leave_the_sides_alone()
        self._clear()

    def change(self) -> None:
        """The wind turns, or somebody forgets."""
        if self._slower == 1 and self._fate.random() < 200 * self.fragile:
            self._forget()
        elif self._slower == 1 and self._will.random() < 50 * self.restless:
            self._reorganise()
        elif self._may_force and self._need.random() < 0.5:
            self._abandon()
        else:
            self.links.turn(self.random, [member.name for member in self.members])

    def _forget(self) -> None:
        """Some go on by themselves; then one of them loses its disk, and meets those who were not there alone."""
        chance, centres = self._fate, self.links.centres
        if len(centres) < 3:
            return
        self.links.dry, self.links.deaf, self._stopped = set(), "", {}
        left = set(chance.sample(centres, len(centres) // 2 + 1))
        some = self._go_on(left)
        lost = chance.choice(some)
        self._lose_disk(lost)
        self._go_on(set(centres) - left | {lost.dc})

    def _reorganise(self) -> None:
        """A majority changes the peers while the others are not there; then one of these meets some of it alone."""
        chance, centres = self._will, self.links.centres
        self.links.dry, self.links.deaf, self._stopped = set(), "", {}
        left = set(chance.sample(centres, len(centres) // 2 + 1))
        self._go_on(left)
        others = [centre for centre in centres if centre not in left]
        self._go_on({*others, chance.choice(sorted(left))})

    def _abandon(self) -> None:
        """Half of the data centres are taken for lost, and were not: they go on as well, and come back."""
        chance, centres = self._need, self.links.centres
        self.links.dry, self.links.deaf, self._stopped = set(), "", {}
        left = set(chance.sample(centres, len(centres) // 2))
        some = self._go_on(left)
        if some:
            self._force(chance.choice(some))
            self._go_on(set(centres) - left)
            self._go_on(left)

    def _go_on(self, centres: set[str]) -> list[Member]:
        """Those of some data centres hear each other alone for a while, and are given something to do."""
        self.links.part(centres)
        some = [member for member in self.members if member.dc in centres]
        for _ in range(30):
            if self._fate.random() < 0.2:
                self._submit(self._fate.choice(some))
            if self._will.random() < 10 * self.restless:
                self._ask(self._will.choice(some))
            self._round()
        return some

    def step(self) -> None:
        """One event."""
        self.coverage.events += 1
        self.at += self.random.random() * 20
        member = self.random.choice(self.members)
        if self._will.random() < self.restless:
            self._ask(member)
        if self._tide.random() < self._filling:
            self._fill(member)
        if self._choice.random() < self._changing:
            self._set(member)
        if self._synchronous and self._sync.random() < 0.001:
            self._set_quorum(member)
        if self._may_force and self._need.random() < 0.01:
            self._force(member)
        if self._approving and self._word.random() < self._approving / 10:
            self._approve(member)
        if self._fate.random() < self.fragile:
            self._lose_disk(member)
        if self._stopped.get(member.name, 0.0) > self.at:
            self.coverage.note("stall")
            return
        left = self.world.left
        if left and any(one.core.is_peer and one.name not in left for one in self.members):
            self.coverage.note("forced")  # somebody was taken for lost, and does not know, or was added again
        self._do(member)
        self._note_standing(member)

    def _do(self, member: Member) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self._submit(member)
        elif chance < 0.053 and self._numbers:
            last = len(self._numbers) - 1
            number = self.random.randint(max(0, last - 2), last)
            known = self.world.transactions[number]
            is_twin = self.seed >= TWINS and known.kind is TransactionKind.TX and self._sync.random() < 0.5
            self.coverage.note("retry")
            if is_twin:
                number = self._made(TransactionKind.TX, name=known.id)
            if self._is_for_clients(member):
                self._play("submit", member, number=number)
        elif chance < 0.056:
            self._fail(member, chance)
        elif chance < 0.17:
            self._acquire(member)
        elif chance < 0.20:
            self._follow(member)
        elif chance < 0.45:
            self._turn(member)
        elif others := [m for m in self.members if m is not member]:
            self.delivery.deliver(self.random.choice(others), member)

    def _fail(self, member: Member, chance: float) -> None:
        """What happens to a process, its clock and its disk."""
        if chance < 0.0545:
            self._play("restart", member)
            self._note_crash(member)
        elif chance < 0.0555:
            self._set_clock(member)
        else:
            self._stopped[member.name] = self.at + self.random.random() * 2 * self.lag

    def _play(self, what: str, member: Member, other: str = "", number: int = 0) -> None:
        self._keep_awake(member.name)
        self.world.play(Event(self.at, what, member.name, other, number))

    def _keep_awake(self, name: str) -> None:
        """Since it acted last a master did what matters to nobody, unless it was stopped: then it stood still."""
        at = self._acted.get(name, self.at)
        self._acted[name] = self.at
        if self.at - at <= self.lag / 3:
            return
        stopped = self._stopped.get(name, 0.0)
        at = stopped if at < stopped <= self.at else at + self.lag / 3
        while at < self.at:
            self.world.play(Event(at, "wake", name))
            at += self.lag / 3

    def _submit(self, member: Member) -> None:
        """A client gives it a transaction, if it takes one."""
        if member.core.is_peer and self._is_for_clients(member):
            self._play("submit", member, number=self._made(TransactionKind.TX))

    def _is_for_clients(self, member: Member) -> bool:
        return member.dc not in self.world.witnesses

    def _ask(self, member: Member) -> None:
        """An operator asks to add or to remove a peer, whoever it is."""
        view = member.core.view
        if not self._is_for_clients(member):
            return
        if member.core.is_peer and (self.world.is_majority(view) or self._will.random() < 0.1):
            self.coverage.note("peers")
            other = self._will.choice(self.members)
            is_there = other.name in self.world.names_of(view)
            options = options_of(other.name, "" if is_there else other.dc)
            self._play("ask", member, other.name, self._made(TransactionKind.CONFIG, options))

    def _set(self, member: Member) -> None:
        """An operator sets how long a member may be silent or, where all are there, what a split does."""
        view = member.core.view
        if not member.core.is_peer or not self._is_for_clients(member) or not self.world.is_majority(view):
            return
        name, value = "max-peer-lag", f"{self.lag * self._choice.choice((1, 1.5)) / 1000:g}"
        if (
            self._choice.random() < 0.5
            and {*view.members} == self.world.names_of(view)
            and not self._is_patient
        ):
            name, value = "split-recovery", self._choice.choice(list(SplitRecovery))
            self.world.is_mixed = True
        if self._is_patient:
            value = "3600"
        self.coverage.note("setting")
        options = set_options(name, value, by=member.name)
        self._play("ask", member, name, self._made(TransactionKind.CONFIG, options))

    def _set_quorum(self, member: Member) -> None:
        """An operator sets how many data centres must have a synchronous transaction, or how long it may wait."""
        if not member.core.is_peer or not self._is_for_clients(member) or not member.core.may_agree:
            return
        name, value = "synchro-quorum", self._sync.choice(QUORUMS)
        if self._sync.random() < 0.5:
            name, value = "synchro-timeout", f"{self.lag * self._sync.choice((0.2, 1.0, 5.0)) / 1000:g}"
        self.coverage.note("setting")
        options = set_options(name, value, by=member.name)
        self._play("ask", member, name, self._made(TransactionKind.CONFIG, options))

    def _approve(self, member: Member) -> None:
        """An operator approves that its side gives way or, seldom, that others give way to it."""
        core = member.core
        is_asked = core.cluster().held is not None or self._word.random() < 0.02
        if not (is_asked and core.is_peer and self._is_for_clients(member)):
            return
        self.coverage.note("approval")
        fork = core.standing.fork or 0
        own = [one.pair.id for one in member.disk.log[fork:] if one.transaction.kind is TransactionKind.TX]
        drop = frozenset(self._word.sample(own, min(len(own), self._word.choice((0, 0, 1, 3)))))
        after = core.last if self._word.random() < 0.9 else LogPosition(core.last.index, bytes(32))
        options = Approval(self._word.randbytes(32), after, drop).options
        self._play("ask", member, "the end of the split", self._made(TransactionKind.CONFIG, options))

    def _force(self, member: Member) -> None:
        """An operator names all of a view as what is left: no majority, and there is none without it."""
        view = member.core.view
        names = self.world.names_of(view)
        lost = [other for other in self.members if other.name in names.difference(view.members)]
        is_asked = member.core.is_peer and self._is_for_clients(member)
        if is_asked and lost and self.world.is_half(view):
            self._may_force = False
            self.coverage.note("forced")
            other = self._need.choice(lost)
            options = options_of(other.name, left=view)
            self._play("ask", member, other.name, self._made(TransactionKind.CONFIG, options))

    def _fill(self, member: Member) -> None:
        """Its data centre's effects topic takes none, or takes some again; each of its masters sees it, or not."""
        self.coverage.note("full")
        full = not member.is_full
        for mate in self.members:
            if mate is member or (mate.dc == member.dc and self._tide.random() < 0.7):
                self._play("full", mate, number=int(full))

    def _made(
        self, kind: TransactionKind, options: dict[str, str] | None = None, *, name: bytes = b""
    ) -> int:
        """A new transaction's number; `name`: the id of another one, which a client uses a second time."""
        number = len(self._numbers)
        digest = blake2b(f"{self.seed}/{number}".encode(), digest_size=32).digest()
        name = name or digest[:16]
        if kind is TransactionKind.TX and self._synchronous and self._sync.random() < self._synchronous:
            digest = marked(digest, {COMMIT_MODE: CommitMode.SYNC})
        transaction = Transaction(id=name, digest=digest, kind=kind, options=options or {})
        self.world.transactions.append(transaction)
        self._numbers[transaction.key] = number
        return number

    def _acquire(self, member: Member) -> None:
        """A payload that another data centre in reach has, or another master of this one has written."""
        for other in self.random.sample(self.members, len(self.members)):
            if (other.dc, member.dc) in self.links.dry:
                self.coverage.note("dry")
            elif self.links.is_heard(other.dc, member.dc):
                missing = next((key for key in reversed(other.kafka) if key not in member.told), None)
                if missing is not None:
                    self._play("acquire", member, number=self._numbers[missing])
                    return

    def _set_clock(self, member: Member) -> None:
        self.coverage.note("clock")
        self._play("clock", member, number=self.random.choice(self.skews) + self.random.randint(-50, 50))

    def _follow(self, member: Member) -> None:
        joining = member.core.standing.joining
        if joining is None:
            return
        reach = [
            m for m in self.members if m.name in joining.members and self.links.is_heard(m.dc, member.dc)
        ]
        if reach:
            self.coverage.note("join")
            self._play("follow", member, self.random.choice(reach).name, self.random.randint(1, 60))

    def _lose_disk(self, member: Member) -> None:
        """What its data centre's Kafka has stays; all that others said is read again."""
        before = member.losses
        self._play("lose", member)
        if member.losses > before:
            self.coverage.note("lost disk")
            for other in self.members:
                if other is not member and self._sight.random() < 0.3:  # its Kafka is an older copy, too
                    self.coverage.note("void")
                    self._play("void", other, member.name)
            self.delivery.begin_again(member)

    def _turn(self, member: Member) -> None:
        dies = self.random.random() < 0.01
        self._play("turn", member, number=self.random.randrange(5) if dies else -1)
        if dies:
            self._note_crash(member)

    def _note_crash(self, member: Member) -> None:
        self.coverage.note("crash")
        self.delivery.go_back(member)

    def _note_standing(self, member: Member) -> None:
        """What changed in where it stands."""
        before, self._standing[member.name] = self._standing[member.name], member.core.standing
        self.coverage.stands(before, member.core.standing)

    # --- liveness -----------------------------------------------------------------------------------

    def _leave_the_sides_alone(self) -> None:
        """Nothing fails any more but what is cut: each side goes on by itself, with all that is in it."""
        parts = self.links.sides()
        if self.links.dry or parts is None:
            return
        self._stopped = {}
        sides = [[member for member in self.members if member.dc in part] for part in parts]
        sides = [side for side in sides if not all(member.core.is_blank for member in side)]
        for _ in range(CLEAR * self._slower):
            self._round()
            if all(self._goes_on(side) for side in sides):
                return
        views = {member.name: member.core.view.members for member in self.members}
        message = f"a side does not go on: {[[member.name for member in side] for side in sides]}, {views}"
        raise AssertionError(message)

    def _goes_on(self, side: list[Member]) -> bool:
        """Those of it that its strongest master takes for peers are in one view, and nothing waits that may be agreed.

        Where all know that they were removed nobody is to go on; and nobody with one that is, and whom all have left.
        """
        if not any(member.core.is_peer for member in side):
            return True
        peers = self._peers_of([m for m in side if m.core.is_peer or not m.core.standing.given_up])
        names = tuple(sorted(member.name for member in peers))
        return all(
            member.core.view.members == names
            and member.core.standing.joining is None
            and not (len(member.core.queue) and self.world.may_agree(member))
            for member in peers
        )

    def _peers_of(self, side: list[Member]) -> list[Member]:
        strongest = max(side, key=lambda member: member.core.standing.rank)
        names = self.world.names_of(strongest.core.view)
        return [member for member in side if member.name in names]

    def _round(self) -> None:
        """All turn, and hear all that they can."""
        self.at += (PUT_OFF_MS if self._is_patient else self.lag) / 20 / self._slower
        for member in self.members:
            if self._approving and member.core.cluster().held and self._word.random() < 0.3:
                self._approve(member)
            self._acquire_all(member)
            self._play("turn", member, number=-1)
            self._follow(member)
        for reader in self.members:
            for sender in self.members:
                if sender is not reader:
                    self.delivery.deliver_all(sender, reader)

    def _acquire_all(self, member: Member) -> None:
        for other in self.members:
            if self.links.is_heard(other.dc, member.dc) and self._has_news(other, member):
                for number in sorted(self._numbers[key] for key in other.kafka.keys() - member.told):
                    self.coverage.events += 1
                    self._play("acquire", member, number=number)

    def _has_news(self, other: Member, member: Member) -> bool:
        """Whether it has payloads that the member may lack: nobody takes any back, and who lost some begins anew."""
        known = self._compared.get((other.name, member.name))
        now = (other.kafka, len(other.kafka), member.told)
        self._compared[other.name, member.name] = now
        return known is None or known[0] is not now[0] or known[1] != now[1] or known[2] is not now[2]

    def _clear(self) -> None:
        """All is heard by all, at once."""
        self.links.heal()
        self._stopped = {}
        for member in self.members:
            if member.is_full and self._tide.random() < 0.5:
                self._play("full", member, number=0)
        for _ in range(CLEAR * self._slower):
            self._round()
            if self._is_done():
                break
        self._check_the_end()

    def _is_done(self) -> bool:
        peers = self._peers_of(self.members)
        ends = {member.disk.log[-1].point if member.disk.log else None for member in peers}
        names = {member.name for member in peers}
        return (
            len(ends) == 1
            and self._must_be_there(peers) <= peers[0].disk.ids
            and not any(member.core.limbo.undecided for member in peers)
            and all(member.core.last.index == len(member.disk.log) for member in peers)
            and all(set(member.core.view.members) == names for member in peers)
            and self.world.homes.may_be(peers[0].core.view)
            and self._takes_effects(peers[0].core.view)
            and not any(member.core.view.blank or member.core.view.before for member in peers)
            and {member.core.view.peers or self.world.peers for member in peers}
            == {self._logged_by(peers[0])}
            and not any(member.core.is_peer for member in self.members if member not in peers)
            and {member.core.standing.settings for member in peers} == {self._set_by(peers[0])}
        )

    def _takes_effects(self, view: View) -> bool:
        """Whether a master of the home says that its effects topic takes records, if any other could be the home."""
        able = {
            member.dc
            for member in self.members
            if member.name in view.members and not member.is_full and member.dc not in self.world.witnesses
        }
        return not able or view.home in able

    def _logged_by(self, member: Member) -> tuple[Peer, ...]:
        """Who the peers are by its log alone."""
        peers = self.world.peers
        for entry in member.disk.log:
            peers = changed(peers, entry.transaction) or peers
        return peers

    def _set_by(self, member: Member) -> tuple[AgreedSetting, ...]:
        """What is set by its log alone."""
        settings: tuple[AgreedSetting, ...] = ()
        for entry in member.disk.log:
            if names_setting(entry.transaction.options):
                change = set_by(entry.transaction.options, entry.point.index, entry.pair.timestamp >> 16)
                assert change is not None
                settings = after(settings, change)
        return settings

    def _must_be_there(self, peers: list[Member]) -> set[bytes]:
        """All that these were given, or a majority agreed on.  What only others were given may go with them."""
        given = {key for member in peers for key in member.mine}
        settled = {name for _, name in self.world.safety.settled.values()}
        return settled | {
            t.id for t in self.world.transactions if t.kind is TransactionKind.TX and t.key in given
        }

    def _check_the_end(self) -> None:
        peers = self._peers_of(self.members)
        logs = [[entry.pair.id for entry in member.disk.log] for member in peers]
        views = [(member.core.view.epoch, member.core.view.members) for member in self.members]
        assert all(log == logs[0] for log in logs), f"not converged: {[len(log) for log in logs]}, {views}"
        assert len(logs[0]) == len(set(logs[0])), f"doubled: {len(logs[0])}, {views}"
        lost = self._must_be_there(peers) - set(logs[0])
        assert not lost, f"lost: {len(lost)} of {len(self._numbers)}, {views}"
        assert self._is_done(), f"not all are in one view: {views}"
        self.world.safety.limbo.check_the_end(peers)
        for index, (_, name) in self.world.safety.settled.items():
            assert logs[0][index - 1 : index] == [name], f"what a majority had agreed on at {index} moved"
