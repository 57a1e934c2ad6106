"""Who writes: commits, tags and views, and what brings a version to another branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.property.versions.collector_model.model import (
    BEGIN,
    COMMIT,
    END,
    NEVER,
    Entry,
    Local,
    Name,
    Rules,
    Step,
    World,
    appended,
    is_expired,
    named,
    stored,
)

DONE: Local = ("done",)

UNREAD = -1
"""In place of the number to publish at: the head was not read yet."""


@dataclass(frozen=True)
class Writer:
    """Commits packs to a branch; after a lost race it tries again on the new head.

    With ``moves_to``, it then takes what it staged to another branch, where nothing forbids it.
    With ``replaces``, its version refers to its own packs only, as after an optimize.
    """

    branch: int
    packs: tuple[int, ...]
    attempts: int = 2
    replaces: bool = False
    moves_to: int | None = None

    @property
    def start(self) -> Local:
        return ("read_head",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        match at:
            case ("read_head",):
                log = world.logs[self.branch]
                if log and log[-1].refs is not None and log[-1].kind != END:
                    yield "read head", world, ("stage", 0, len(log), log[-1].t)
            case ("stage", int(staged), seq, t):
                yield from self._stage(world, staged, seq, t, rules)
            case ("publish", int(left), seq, t):
                yield from self._publish(world, left, seq, t, rules)
            case ("move",):
                log = world.logs[self.moves_to or 0]
                if log and log[-1].refs is not None:
                    if self._is_late(world, log[-1].t, 0, rules):
                        yield "expired", world, DONE
                    else:
                        yield (
                            "move",
                            appended(world, self.moves_to or 0, self._entry(world, log)),
                            DONE,
                        )
            case _:
                return

    def _stage(
        self, world: World, staged: int, seq: object, t: object, rules: Rules
    ) -> Iterator[Step]:
        """PUT the next pack; without "oldest" in any order. ``staged`` has a bit for each."""
        everything = (1 << len(self.packs)) - 1
        for which, pack in enumerate(self.packs):
            if staged >> which & 1:
                continue
            if "oldest" in rules and which and not staged & 1:
                continue
            after = staged | 1 << which
            at: Local = ("stage", after, seq, t)
            if after == everything:
                at = ("publish", self.attempts, seq, t)
            yield f"stage {pack}", stored(world, pack), at

    def _publish(
        self, world: World, left: int, seq: object, t: object, rules: Rules
    ) -> Iterator[Step]:
        """Compare ages, then put if absent; after a lost race read the head again."""
        assert isinstance(t, int)
        if self._is_late(world, t, left, rules):
            moved = self.moves_to is not None and "bind" not in rules
            yield "expired", world, ("move",) if moved else DONE
            return
        log = world.logs[self.branch]
        if len(log) == seq:
            yield "publish", appended(world, self.branch, self._entry(world, log)), DONE
            if self.moves_to is not None and "bind" not in rules:
                yield "give up here", world, ("move",)
        elif left > 1 and log[-1].kind != END:
            yield "lost a race", world, ("publish", left - 1, len(log), log[-1].t)
        elif self.moves_to is not None and "bind" not in rules:
            yield "lost a race", world, ("move",)

    def _is_late(self, world: World, t: int, left: int, rules: Rules) -> bool:
        if "r1_check" not in rules or ("r1_every" not in rules and left < self.attempts):
            return False
        return world.packs[self.packs[0]] <= t  # a deleted one too

    def _entry(self, world: World, log: tuple[Entry, ...]) -> Entry:
        del world
        own = sum(1 << pack for pack in self.packs)
        head = log[-1]
        refs = own if self.replaces else own | (head.refs or 0)
        return Entry(COMMIT, refs, head.t, head.expired_before)


@dataclass(frozen=True)
class Tagger:
    """Tags a version; with a pack of its own the tag is a saved view."""

    name: int
    branch: int
    seq: int
    grace: int = 1
    pack: int | None = None

    @property
    def start(self) -> Local:
        return ("put",) if self.pack is None else ("stage",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        log = world.logs[self.branch]
        match at[0]:
            case "stage":
                assert self.pack is not None
                yield "view: stage", stored(world, self.pack), ("put",)
            case "put" if self.seq < len(log) and log[self.seq].refs is not None:
                own = 0 if self.pack is None else 1 << self.pack
                name = Name(self.branch, self.seq, own, world.clock)
                yield "tag", named(world, self.name, name), ("check",)
            case "check":
                name = world.names[self.name]
                assert name is not None
                is_old = self.pack is not None and (
                    name.time - world.packs[self.pack] >= self.grace and "view_age" in rules
                )
                if is_old or ("r2" in rules and is_expired(log, self.seq)):
                    yield "withdraw", named(world, self.name, None), DONE
                else:
                    kept = name._replace(is_acknowledged=True)
                    yield "acknowledge", named(world, self.name, kept), DONE
            case _:
                return


@dataclass(frozen=True)
class Brancher:
    """Starts a branch at a version: begin, pin, read again, publish, unpin."""

    branch: int
    pin: int
    source: int
    seq: int

    @property
    def start(self) -> Local:
        return ("begin",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        log = world.logs[self.branch]
        source = world.logs[self.source]
        if at[0] != "begin":
            yield from _bring(self, world, at, rules)
        elif self.seq >= len(source):
            return
        elif "begin" in rules:
            if not log:
                yield "begin", appended(world, self.branch, Entry(BEGIN, None)), ("pin", 1, NEVER)
            elif log[-1].refs is None and log[-1].kind != END:  # another's, who died
                yield "go on", world, ("pin", len(log), log[-1].t)
        elif not log:
            first = Entry(COMMIT, source[self.seq].refs)
            yield "first", appended(world, self.branch, first), ("late check",)


@dataclass(frozen=True)
class Bringer:
    """Restores or merges another branch's version: read head, pin, read again, publish, unpin."""

    branch: int
    pin: int
    source: int
    seq: int

    @property
    def start(self) -> Local:
        return ("read_head",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        log = world.logs[self.branch]
        if at[0] != "read_head":
            yield from _bring(self, world, at, rules)
        elif self.seq >= len(world.logs[self.source]):
            return
        elif "read_first" not in rules:
            yield from _bring(self, world, ("pin", UNREAD, NEVER), rules)
        elif log and log[-1].refs is not None and log[-1].kind != END:
            yield "read head", world, ("pin", len(log), log[-1].t)


def _bring(who: Brancher | Bringer, world: World, at: Local, rules: Rules) -> Iterator[Step]:
    """The steps that all who bring a version to another branch share."""
    log, source = world.logs[who.branch], world.logs[who.source]
    match at:
        case ("pin", seq, t):
            pinned = world
            if "pin" in rules:
                pinned = named(world, who.pin, _pin(who, world))
            yield "pin", pinned, ("check", seq, t, world.clock)
        case ("check", seq, t, time):
            if "r2" in rules and is_expired(source, who.seq):
                yield "gone: unpin", named(world, who.pin, None), DONE
            else:
                yield "read again", world, ("publish", seq, t, time, 2)
        case ("publish", seq, _, time, left) if seq == UNREAD:  # the head is read only now
            if log and log[-1].refs is not None and log[-1].kind != END:
                yield "read head", world, ("publish", len(log), log[-1].t, time, left)
        case ("publish", seq, int(t), int(time), int(left)):
            if "r1_pin" in rules and time <= t:
                yield "expired: unpin", named(world, who.pin, None), DONE
            elif len(log) == seq:
                refs = (source[who.seq].refs or 0) | (log[-1].refs or 0)
                entry = Entry(COMMIT, refs, log[-1].t, log[-1].expired_before)
                yield "publish", appended(world, who.branch, entry), ("unpin",)
            elif left > 1 and log[-1].kind != END and _may_go_on(who, log):
                yield "lost a race", world, ("publish", len(log), log[-1].t, time, left - 1)
            else:
                yield "given up: unpin", named(world, who.pin, None), DONE
        case ("unpin",):
            yield "unpin", named(world, who.pin, None), DONE
        case ("late check",):  # without "begin": seen before it is checked
            if "r2" in rules and is_expired(source, who.seq):
                yield "gone: end", appended(world, who.branch, log[-1]._replace(kind=END)), DONE
            else:
                yield "read again", world, DONE
        case _:
            return


def _pin(who: Brancher | Bringer, world: World) -> Name:
    return Name(who.source, who.seq, own=0, time=world.clock, is_pin=True)


def _may_go_on(who: Brancher | Bringer, log: tuple[Entry, ...]) -> bool:
    """A new branch that got a commit from another creator is theirs."""
    return isinstance(who, Bringer) or log[-1].refs is None


@dataclass(frozen=True)
class Creator:
    """A branch that cites nothing appears, as main does."""

    branch: int
    pack: int

    @property
    def start(self) -> Local:
        return ("create",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        del rules
        if at[0] == "create" and not world.logs[self.branch]:
            entry = Entry(COMMIT, 1 << self.pack)
            yield "create", appended(stored(world, self.pack), self.branch, entry), DONE
