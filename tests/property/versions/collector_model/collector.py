"""The collector, and what else appends to a log without data: expire, and the end of a branch.

The collector's steps are called as in ``tensorlake/versions/maintenance/collect.py``; a label
begins with the step that its request belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.property.versions.collector_model.model import (
    END,
    FENCE,
    GONE,
    NEVER,
    Entry,
    Local,
    Log,
    Rules,
    Step,
    World,
    appended,
)

ENDED = -1
"""In place of the expired_before from which a branch is marked."""


@dataclass(frozen=True)
class Collector:
    """Collects once. ``expire`` gives up versions of branches in its own fences.

    Where it is: (what next, t, branches still to do, where to mark each from, packs marked).
    """

    grace: int = 1
    expire: tuple[tuple[int, int], ...] = ()

    @property
    def start(self) -> Local:
        return ("read_clock", NEVER, (), (), 0)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        step, t, todo, marks, marked = at
        assert isinstance(step, str)
        assert isinstance(t, int)
        assert isinstance(todo, tuple)
        assert isinstance(marks, tuple)
        assert isinstance(marked, int)
        match step:
            case "read_clock":
                t = world.clock - self.grace
                yield "read_clock", world, ("expire_tags", t, (), (), 0)
            case "expire_tags":
                names = tuple(
                    None if name and name.expires <= t + self.grace else name
                    for name in world.names
                )
                yield "expire_tags", world._replace(names=names), ("list", t, (), (), 0)
            case "list":
                after = "come_to" if "t_first" in rules else "late_clock"
                yield "fence_branches: list", world, (after, t, _branches(world), (), 0)
            case "late_clock":
                t = world.clock - self.grace
                yield "read_clock", world, ("come_to", t, todo, (), 0)
            case "come_to":
                yield from self._come_to(world, t, todo, marks, rules)
            case "put_fence":
                yield from self._put_fence(world, t, todo, marks, rules)
            case "list_tags":
                marked |= _held(world, t, rules)
                after = "read_heads" if "tags_first" in rules else "delete_packs"
                yield "list_tags", world, (after, t, (), marks, marked)
            case "read_heads":
                yield "read_heads", world, ("mark", t, _branches(world), marks, marked)
            case "mark":
                branch, *rest = todo
                marked |= _reached(world.logs[branch], dict(marks).get(branch, 0), rules)
                done = "delete_packs" if "tags_first" in rules else "list_tags"
                yield (
                    f"mark {branch}",
                    world,
                    ("mark" if rest else done, t, (*rest,), marks, marked),
                )
            case "delete_packs":
                packs = tuple(
                    GONE if 0 <= time <= t and not marked >> pack & 1 else time
                    for pack, time in enumerate(world.packs)
                )
                yield "delete_packs", world._replace(packs=packs), ("drop_pins", t, (), (), 0)
            case "drop_pins":
                names = tuple(
                    None if name is not None and name.is_pin and name.time <= t else name
                    for name in world.names
                )
                yield "drop_pins", world._replace(names=names), ("done", t, (), (), 0)
            case _:
                return

    def _come_to(
        self, world: World, t: int, todo: Local, marks: Local, rules: Rules
    ) -> Iterator[Step]:
        """Read a branch's head: has it ended, does it need a fence?"""
        if not todo:
            yield from self.steps(world, (_after_fences(rules), t, (), marks, 0), rules)
            return
        branch, *rest = todo
        assert isinstance(branch, int)
        if "t_once" not in rules:
            t = world.clock - self.grace
        log = world.logs[branch]
        label = f"fence_branches: come to {branch}"
        head = log[-1]
        if head.kind == END:
            yield label, world, ("come_to", t, (*rest,), (*marks, (branch, ENDED)), 0)
            return
        raised = max(head.expired_before, dict(self.expire).get(branch, 0))
        is_low = head.t < t or head.expired_before < raised or "mono" not in rules
        if is_low and "fences" in rules:
            known = (branch, len(log), head.expired_before)
            yield label, world, ("put_fence", t, (known, *rest), marks, 0)
            return
        marks = (*marks, (branch, head.expired_before))
        yield label, world, ("come_to", t, (*rest,), marks, 0)

    def _put_fence(
        self, world: World, t: int, todo: Local, marks: Local, rules: Rules
    ) -> Iterator[Step]:
        """Put a fence at the number after the head that was read; a lost race is come to again."""
        (branch, seq, came_at), *rest = todo
        log = world.logs[branch]
        if len(log) != seq:
            head = log[-1]
            if head.kind == END:  # it had not when we came: it counts as live
                marks = (*marks, (branch, came_at))
                yield "fence_branches: lost to end", world, ("come_to", t, (*rest,), marks, 0)
            else:
                known = (branch, len(log), came_at)
                yield (
                    "fence_branches: lost a race",
                    world,
                    ("put_fence", t, (known, *rest), marks, 0),
                )
            return
        fence = fence_on(log[-1], t, dict(self.expire).get(branch, 0), rules)
        marks = (*marks, (branch, fence.expired_before))
        after = ("come_to", t, (*rest,), marks, 0)
        yield f"fence_branches: put on {branch}", appended(world, branch, fence), after


@dataclass(frozen=True)
class Expirer:
    """Gives up the versions of a branch below a number, beside whatever else runs."""

    branch: int
    before: int

    @property
    def start(self) -> Local:
        return ("read",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        log = world.logs[self.branch]
        if at[0] == "read" and log and log[-1].kind != END:
            yield "expire: read head", world, ("put", len(log))
        elif at[0] == "put" and at[1] != len(log):
            yield "expire: lost a race", world, ("read",)
        elif at[0] == "put":
            fence = fence_on(log[-1], NEVER, self.before, rules)
            yield "expire", appended(world, self.branch, fence), ("done",)


@dataclass(frozen=True)
class Ender:
    """Ends a branch. One request: who reads the head before it and loses only tries again."""

    branch: int

    @property
    def start(self) -> Local:
        return ("put",)

    def steps(self, world: World, at: Local, rules: Rules) -> Iterator[Step]:
        del rules
        log = world.logs[self.branch]
        if at[0] == "put" and log and log[-1].kind != END:
            yield "end", appended(world, self.branch, log[-1]._replace(kind=END)), ("done",)


def fence_on(head: Entry, t: int, expired_before: int, rules: Rules) -> Entry:
    """The fence that follows an entry."""
    if "mono" not in rules:
        return Entry(FENCE, head.refs, max(t, NEVER), expired_before)
    raised = max(expired_before, head.expired_before)
    return Entry(FENCE, head.refs, max(t, head.t), raised)


def _after_fences(rules: Rules) -> str:
    return "list_tags" if "tags_first" in rules else "read_heads"


def _branches(world: World) -> tuple[int, ...]:
    return tuple(branch for branch, log in enumerate(world.logs) if log)


def _held(world: World, t: int, rules: Rules) -> int:
    """What tags hold, and pins newer than t."""
    marked = 0
    for name in world.names:
        if name is not None and (not name.is_pin or ("pins" in rules and name.time > t)):
            marked |= (world.logs[name.branch][name.seq].refs or 0) | name.own
    return marked


def _reached(log: Log, start: int, rules: Rules) -> int:
    """What a branch needs, from where the collector found it to begin."""
    head = log[-1]
    if start == ENDED or ("dead_before" not in rules and head.kind == END):
        return 0
    if "eb_before" not in rules:
        start = head.expired_before
    marked = 0
    for entry in log[start:]:
        marked |= entry.refs or 0
    return marked
