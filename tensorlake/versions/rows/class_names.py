"""Class names that grew apart: which class of one version is which in another, one list for all.

A code keeps its class along a branch's log, whatever is merged or restored there; on another
branch the same class may have another code. So a class that was added has an id, which it keeps
under any name and code (``TensorSpec.class_ids``); one that was declared with its tensor has the
same code everywhere. What both sides added under one name is one class, with both ids:

    base      cat dog                    ids
    standing  cat dog emu owl            a: 2, b: 3
    incoming  cat dog owl yak            c: 2, d: 3
    combined  cat dog emu owl yak        a: 2, b: 3, c: 3, d: 4    incoming's codes: 2 → 3, 3 → 4

A dropped class is the empty name: its code is never given to another. What one side dropped and
added again under the same name is, in a merge, the class that the other side still has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorlake.format import TensorSpec
from tensorlake.types import ClassLabel

__all__ = [
    "ClassNames",
    "NamesClash",
    "class_names",
    "codes_in",
    "combine_class_names",
    "known_codes",
]


@dataclass(frozen=True, slots=True)
class NamesClash:
    """A class that both changed, or a name that would stand for two.

    Attributes:
        what: In words.
        can_be_preferred: Whether one side's name can be taken.
    """

    what: str
    can_be_preferred: bool


@dataclass(frozen=True, slots=True)
class ClassNames:
    """One list of names.

    Attributes:
        names: By code; the standing side's keep theirs.
        codes: The code here of each of incoming's codes.
        ids: Of the classes that were added, as ``TensorSpec.class_ids`` has them.
        clashes: What both changed, decided for the preferred side or not.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    ids: Mapping[str, int]
    clashes: tuple[NamesClash, ...] = ()


def class_names(spec: TensorSpec) -> tuple[str, ...]:
    """The class names of a tensor, by code; none where it has no classes."""
    return tuple(spec.type.names) if isinstance(spec.type, ClassLabel) else ()


def codes_in(side: TensorSpec, other: TensorSpec) -> tuple[int, ...]:
    """Tell for each class of a version that another contains which code it has there.

    >>> older = TensorSpec.new("label", ClassLabel(["cat", "dog"])).with_classes(["cat", "hound"])
    >>> codes_in(older.with_classes(["cat", "hound", "emu"]), older)
    (0, 1)
    """
    codes = known_codes(side, other)
    return tuple(codes.get(code, code) for code in range(len(class_names(other))))


def known_codes(side: TensorSpec, other: TensorSpec) -> dict[int, int]:
    """Tell which classes of one version are known in another, by code, and their codes there.

    One that was dropped there and added again is what it was added as.
    """
    names = class_names(side)
    pairs = [(code, side.class_ids[id_]) for id_, code in other.class_ids.items()
             if id_ in side.class_ids]  # fmt: skip
    pairs.sort(key=lambda pair: (bool(names[pair[1]]), pair))
    found = dict(pairs)
    added = {*side.class_ids.values()}
    mine = {*other.class_ids.values()}
    declared = range(min(len(class_names(side)), len(class_names(other))))
    return {code: code for code in declared if code not in added | mine} | found


def combine_class_names(
    base: TensorSpec,
    standing: TensorSpec,
    incoming: TensorSpec,
    *,
    prefers_incoming: bool,
    drops_are_final: bool,
) -> ClassNames:
    """Unite the class names of two sides, each class followed from the base.

    Args:
        base: The tensor as both began with it.
        standing: As the side has it whose codes stay.
        incoming: As the other side has it.
        prefers_incoming: Who decides the name of a class that both renamed.
        drops_are_final: Whether a class that one side dropped is gone; else it stays, for rows of
            the other may have it.
    """
    old, mine, other = class_names(base), class_names(standing), class_names(incoming)
    in_standing, in_incoming = codes_in(standing, base), codes_in(incoming, base)
    names = [*mine, *[""] * (max([*in_standing, -1]) + 1 - len(mine))]
    codes: dict[int, int] = {}
    clashes: list[NamesClash] = []
    known = known_codes(standing, incoming)
    apart = [("", code, known[code]) for code in sorted(known.keys() - {*in_incoming})]
    both = [(name, *at) for name, *at in zip(old, in_incoming, in_standing, strict=True)]
    followed = (*both, *apart)
    new_here = _added(mine, {code for _, _, code in followed})
    new_there = _added(other, {code for _, code, _ in followed})
    for was, incoming_code, code in followed:
        codes[incoming_code] = code
        here = names[code]
        there = other[incoming_code] if incoming_code < len(other) else ""
        if not (here and there) and not drops_are_final:
            kept, again = (here, new_there) if here else (there, new_here)
            if kept in again and here:
                codes[again[kept]] = code
            elif kept in again:
                codes[incoming_code] = again[kept]
            else:
                names[code] = kept
            if kept and was != kept and was in again:
                told = f"one dropped class {was!r} of {base.name!r} and added it again, the other"
                clashes.append(NamesClash(f"{told} renamed it to {kept!r}", can_be_preferred=False))
        elif here == was:
            names[code] = there
        elif there not in (was, here):
            told = f"both changed class {was or here!r} of {base.name!r}: to {here!r}, to {there!r}"
            clashes.append(NamesClash(told, can_be_preferred=True))
            names[code] = there if prefers_incoming else here
    taken = {*codes.values()}
    own = {name: code for code, name in enumerate(names) if code not in taken and name}
    for code, name in enumerate(other):
        if code not in codes:
            codes[code] = own[name] if name in own else len(names)
            if name not in own:
                names.append(name)
    clashes += [
        NamesClash(
            f"class {name!r} of {base.name!r} would stand for two classes", can_be_preferred=False
        )
        for name in dict.fromkeys(names)
        if name and names.count(name) > 1
    ]
    table = tuple(codes[code] for code in range(len(other)))
    ids = {**incoming.class_ids_in(table), **standing.class_ids}
    return ClassNames(tuple(names), table, ids, tuple(clashes))


def _added(names: Sequence[str], known: Collection[int]) -> dict[str, int]:
    """The classes of one side that the other does not know: code by name."""
    return {name: code for code, name in enumerate(names) if name and code not in known}
