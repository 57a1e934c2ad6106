"""The situations that are explored: who is there, and what there is to lose.

    main   @0 refers to pack 0
    dev    @0 refers to pack 1, @1 to pack 2 alone: expiring dev@0 leaves pack 1 to the collector
    new    does not exist

All three packs were stored at 0 and the clock begins at 1; grace is one tick, so what is stored at
1 may be collected from 2 on.
"""

from __future__ import annotations

from tests.property.versions.collector_model.collector import Collector, Ender, Expirer
from tests.property.versions.collector_model.model import (
    COMMIT,
    NEVER,
    Actor,
    Case,
    Entry,
    Name,
    World,
)
from tests.property.versions.collector_model.writers import (
    Brancher,
    Bringer,
    Creator,
    Tagger,
    Writer,
)

MAIN, DEV, NEW = 0, 1, 2
A, B, C = 3, 4, 5
"""Packs that are stored during a case."""

EXPIRE_DEV = ((DEV, 1),)


def case(name: str, *actors: Actor, until: int = 3, names: int = 2, dev: bool = True) -> Case:
    """Put actors into the world drawn above; without ``dev`` only main is in it."""
    main = (Entry(COMMIT, 1 << 0),)
    versions = (Entry(COMMIT, 1 << 1), Entry(COMMIT, 1 << 2))
    world = World(
        clock=1,
        packs=(0, 0, 0, NEVER, NEVER, NEVER),
        logs=(main, versions if dev else (), ()),
        names=(None,) * names,
        locals=(),
    )
    return Case(name, world, actors, until)


def writers() -> list[Case]:
    """Commits beside collectors."""
    sleeper = Writer(MAIN, (A,))
    return [
        case("writer asleep + gc", sleeper, Collector(), dev=False),
        case("writer of two parallel packs + gc", Writer(MAIN, (A, B)), Collector(), dev=False),
        case("writer + two gc", sleeper, Collector(), Collector(), dev=False),
        case("writer + gc + expire", Writer(DEV, (A,)), Collector(), Expirer(DEV, 1)),
        case("writer + gc that expires", Writer(DEV, (A,)), Collector(expire=EXPIRE_DEV)),
        case("writer + gc + branch end", Writer(DEV, (A,)), Collector(), Ender(DEV)),
        case(
            "retry over a fence",
            Writer(MAIN, (A,), attempts=3),
            Writer(MAIN, (B,), attempts=1),
            Collector(),
            dev=False,
        ),
        case(
            "a fence that loses races",
            Writer(MAIN, (A,)),
            Writer(MAIN, (B,)),
            Collector(),
            dev=False,
            until=2,
        ),
        case(
            "two gc that expire apart",
            Collector(expire=EXPIRE_DEV),
            Collector(),
            Writer(DEV, (A,)),
            until=2,
        ),
        case(
            "replacing writer + gc + expire",
            Writer(MAIN, (A,), replaces=True),
            Collector(),
            Expirer(MAIN, 1),
            dev=False,
        ),
    ]


def citing() -> list[Case]:
    """Each way to cite a version × each way to give it up."""
    givers: list[tuple[str, tuple[Actor, ...]]] = [
        ("branch end + gc", (Ender(DEV), Collector())),
        ("gc that expires", (Collector(expire=EXPIRE_DEV),)),
        ("expire beside gc", (Expirer(DEV, 1), Collector())),
    ]
    citers: list[tuple[str, Actor]] = [
        ("tag", Tagger(0, DEV, 0)),
        ("view", Tagger(0, DEV, 0, pack=A)),
        ("branch", Brancher(NEW, 0, DEV, 0)),
        ("restore", Bringer(MAIN, 0, DEV, 0)),
    ]
    return [
        case(f"{what} + {how}", citer, *actors, until=2 if "end" in how else 3)
        for what, citer in citers
        for how, actors in givers
    ]


def tags() -> list[Case]:
    """More of tags: one that expires, two collectors."""
    expired = case("an expired tag + branch end + gc", Tagger(1, DEV, 0), Ender(DEV), Collector())
    tag = Name(DEV, 1, 0, time=0, is_acknowledged=True, expires=2)
    names = (tag, None)
    return [
        Case(expired.name, expired.world._replace(names=names), expired.actors, expired.until),
        case(
            "tag + branch end + two gc",
            Tagger(0, DEV, 0),
            Ender(DEV),
            Collector(),
            Collector(),
            until=2,
        ),
    ]


def made_meanwhile() -> list[Case]:
    """Branches that appear while a collection runs."""
    brancher = Brancher(NEW, 0, DEV, 0)
    ends = (Ender(DEV), Collector())
    on_new = Writer(NEW, (A,))
    moving = Writer(MAIN, (A,), attempts=1, moves_to=NEW)
    merge = Bringer(NEW, 0, DEV, 0)
    return [
        case("branch of ended dev, writer on it", brancher, *ends, on_new, until=2),
        case("branch of ended dev, tag on it", brancher, *ends, Tagger(1, NEW, 0), until=2),
        case("branch, tag of its first version", brancher, *ends, Tagger(1, NEW, 1), until=2),
        case("branch of dev, two gc", brancher, Ender(DEV), Collector(), Collector(), until=2),
        case("two creators of one branch", brancher, Brancher(NEW, 1, DEV, 1), *ends, until=2),
        case("branch and a view of its head", brancher, Tagger(1, NEW, 1, pack=A), *ends, until=2),
        case("writer on a new branch", Creator(NEW, B), on_new, Collector(), dev=False),
        case("writer on a new branch, two branches", Creator(NEW, B), on_new, Collector()),
        case(
            "writer on a new branch, two gc",
            Creator(NEW, B),
            on_new,
            Collector(),
            Collector(),
            dev=False,
            until=2,
        ),
        case("staged data moved to a new branch", moving, Creator(NEW, B), Collector(), dev=False),
        case(
            "staged data moved to another branch",
            Writer(MAIN, (A,), attempts=1, moves_to=DEV),
            Collector(),
        ),
        case("merge into a branch made later", merge, Creator(NEW, B), *ends, until=2),
        case(
            "merge into a branch made later, expired",
            merge,
            Creator(NEW, B),
            Collector(expire=EXPIRE_DEV),
        ),
    ]


def all_cases() -> list[Case]:
    """Every case; the longest takes minutes."""
    return [*writers(), *citing(), *tags(), *made_meanwhile()]
