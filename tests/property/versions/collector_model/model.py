"""The collector's rules as an explicit-state model: every interleaving of a few actors.

    World = the store's clock × packs × logs × names under tags/ × where each actor is
    step  = one request of one actor (reading what never changes costs none), or a tick of the clock

Whoever is not scheduled is asleep, or dead: both are in the model without saying so. ``explore``
walks all reachable worlds breadth first, so a loss is found by its shortest trace. A world is lost
when something that may be read lacks a pack:
- a version of a log that has not ended, from the log's expired_before on;
- what an acknowledged tag or view names.

Steps are called as in ``tensorlake/versions/maintenance/collect.py``. ``RULES`` names each rule of
docs/reference/format.md, "Garbage", that can be left out: the test beside this file sees data lost
without any one of them. Refs and packs are bit masks, and worlds plain tuples, for speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

RULES = {
    "begin": "a new branch is nothing to cite or commit on before its first commit",
    "bind": "staged data belongs to one branch and never moves to another",
    "dead_before": "a branch counts as ended only if it was when the collector came to fence it",
    "eb_before": "a branch is marked from the expired_before of the collector's own fence on",
    "fences": "the collector appends a fence to every branch",
    "mono": "a fence lowers neither t nor expired_before",
    "oldest": "pack 0 is stored before any other",
    "pin": "a new branch, restore and merge pin what they cite",
    "pins": "the collector marks what pins hold",
    "r1_check": "a writer compares the age of pack 0 with the fence that it stands on",
    "r1_every": "… at every attempt",
    "r1_pin": "a pin counts as a pack",
    "r2": "the cited log is read again after the reference is written",
    "read_first": "the target's head is read before the pin is put",
    "t_first": "the clock is read before branches are listed",
    "t_once": "the clock is read once",
    "tags_first": "tags are listed before heads are read",
    "view_age": "a view's tag is not much younger than its packs",
}
"""What can be left out, one at a time."""

Rules = frozenset[str]
FIXED: Rules = frozenset(RULES)

NEVER, GONE = -1, -2
"""In place of a pack's store time: not stored yet, deleted."""

FOREVER = 1000
"""A time that the clock does not reach."""

BEGIN, COMMIT, FENCE, END = "begin", "commit", "fence", "end"

Local = tuple[object, ...]


class Entry(NamedTuple):
    """A log entry: what its body refers to (None: no body), and the fence it carries."""

    kind: str
    refs: int | None
    t: int = NEVER
    expired_before: int = 0


class Name(NamedTuple):
    """A tag, view or pin: the version it holds, packs of its own, when it was put."""

    branch: int
    seq: int
    own: int
    time: int
    is_pin: bool = False
    is_acknowledged: bool = False
    expires: int = FOREVER


Log = tuple[Entry, ...]


class World(NamedTuple):
    """All there is at one moment."""

    clock: int
    packs: tuple[int, ...]
    logs: tuple[Log, ...]
    names: tuple[Name | None, ...]
    locals: tuple[Local, ...]


Step = tuple[str, World, Local]
"""What is done, the world after it, and where its actor is then."""


class Actor(Protocol):
    """One process: from where it is, the requests it may make next."""

    @property
    def start(self) -> Local:
        """Where it begins."""
        ...

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        """Every next step; none when it is done."""
        ...


@dataclass(frozen=True)
class Case:
    """Actors in a world.

    Attributes:
        world: Where it begins; its locals are filled in by ``explore``.
        until: The last tick of the clock.
    """

    name: str
    world: World
    actors: tuple[Actor, ...]
    until: int


@dataclass(frozen=True)
class Found:
    """What an exploration came to: how many worlds, and the shortest way to a loss, if any."""

    worlds: int
    steps: frozenset[str]
    loss: str | None = None
    trace: tuple[str, ...] = ()


def explore(case: Case, rules: Rules = FIXED) -> Found:
    """Visit every world that can be reached; stop at the first that lost data."""
    first = case.world._replace(locals=tuple(actor.start for actor in case.actors))
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    level = [first]
    steps: set[str] = set()
    while level:
        following: list[World] = []
        for world in level:
            for label, reached in _next_worlds(case, world, rules):
                if reached in came_from:
                    continue
                steps.add(label)
                came_from[reached] = (world, label)
                # A tick or a move alone loses nothing: only what the store holds is looked at.
                if reached[1:4] != world[1:4] and (loss := _loss(reached)):
                    return Found(len(came_from), frozenset(steps), loss, _trace(came_from, reached))
                following.append(reached)
        level = following
    return Found(len(came_from), frozenset(steps))


def _next_worlds(case: Case, world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.clock < case.until:
        yield "tick", world._replace(clock=world.clock + 1)
    for which, actor in enumerate(case.actors):
        for label, reached, at in actor.steps(world, world.locals[which], rules):
            moved = (*world.locals[:which], at, *world.locals[which + 1 :])
            yield f"{which}: {label}", reached._replace(locals=moved)


def _trace(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    while (before := came_from[world]) is not None:
        world, label = before
        labels.append(label)
    return tuple(reversed(labels))


def _loss(world: World) -> str | None:
    present = sum(1 << pack for pack, time in enumerate(world.packs) if time >= 0)
    for branch, log in enumerate(world.logs):
        if not log or log[-1].kind == END:
            continue
        for seq in range(log[-1].expired_before, len(log)):
            refs = log[seq].refs
            if refs is not None and refs & ~present:
                return f"live {branch}@{seq} lacks a pack"
    for number, name in enumerate(world.names):
        if name is not None and name.is_acknowledged:
            refs = (world.logs[name.branch][name.seq].refs or 0) | name.own
            if refs & ~present:
                return f"acknowledged name {number} lacks a pack"
    return None


# What actors do to the world: one request each.


def stored(world: World, pack: int) -> World:
    """PUT a pack."""
    packs = (*world.packs[:pack], world.clock, *world.packs[pack + 1 :])
    return world._replace(packs=packs)


def appended(world: World, branch: int, entry: Entry) -> World:
    """PUT the next entry of a log."""
    log = (*world.logs[branch], entry)
    return world._replace(logs=(*world.logs[:branch], log, *world.logs[branch + 1 :]))


def named(world: World, number: int, name: Name | None) -> World:
    """PUT a tag or pin, acknowledge it, or take it away."""
    return world._replace(names=(*world.names[:number], name, *world.names[number + 1 :]))


def is_expired(log: Log, seq: int) -> bool:
    """Whether a version may be cited no more."""
    return log[-1].kind == END or log[-1].expired_before > seq
