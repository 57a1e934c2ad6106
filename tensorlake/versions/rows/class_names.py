"""Diverged class names: the mapping of classes between versions, and one list for both.

A code keeps its class along a branch's log, through merges and restores; on another branch the same
class may have another code. So a class that was added has an id, which it keeps under any name and
code (``TensorSpec.class_ids``); a class declared with its tensor has the same code everywhere.
Classes that both sides added under one name are one class, with both ids:

    base      cat dog                    ids
    current   cat dog emu owl            a: 2, b: 3
    incoming  cat dog owl yak            c: 2, d: 3
    combined  cat dog emu owl yak        a: 2, b: 3, c: 3, d: 4    incoming's codes: 2 → 3, 3 → 4

A dropped class has the empty name: its code is never reused. In a merge, a class that one side
dropped and added again under the same name is the class that the other side still has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorlake.errors import shown
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
    """A class that both changed, or a name that would denote two classes.

    Attributes:
        what: Description.
        can_be_preferred: Whether one side's name can be chosen.
    """

    what: str
    can_be_preferred: bool


@dataclass(frozen=True, slots=True)
class ClassNames:
    """One list of names.

    Attributes:
        names: Names by code; those of the ``current`` side keep their codes.
        codes: The code here of each of incoming's codes.
        ids: Ids of the added classes, as in ``TensorSpec.class_ids``.
        clashes: Changes by both sides, whether or not resolved for the preferred side.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    ids: Mapping[str, int]
    clashes: tuple[NamesClash, ...] = ()


def class_names(spec: TensorSpec) -> tuple[str, ...]:
    """Return the class names of a tensor, by code; empty if it has no classes."""
    return tuple(spec.type.names) if isinstance(spec.type, ClassLabel) else ()


def codes_in(side: TensorSpec, other: TensorSpec) -> tuple[int, ...]:
    """Map each class of a version to its code in another, which has all of the classes.

    >>> older = TensorSpec.new("label", ClassLabel(["cat", "dog"])).with_classes(["cat", "hound"])
    >>> codes_in(older.with_classes(["cat", "hound", "emu"]), older)
    (0, 1)
    """
    codes = known_codes(side, other)
    return tuple(codes.get(code, code) for code in range(len(class_names(other))))


def known_codes(side: TensorSpec, other: TensorSpec) -> dict[int, int]:
    """Map the codes of classes of one version that another knows to the codes there.

    A class that was dropped there and added again maps to the added one.
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
    current: TensorSpec,
    incoming: TensorSpec,
    *,
    prefers_incoming: bool,
    drops_are_final: bool,
) -> ClassNames:
    """Unite the class names of two sides, each class followed from the base.

    Args:
        base: The tensor at the common base.
        current: The tensor on the side whose codes stay.
        incoming: The tensor on the other side.
        prefers_incoming: Whether incoming's name is chosen for a class that both renamed.
        drops_are_final: Whether a class that one side dropped is removed; otherwise it stays,
            because rows of the other may have it.
    """
    old, mine, other = class_names(base), class_names(current), class_names(incoming)
    in_current, in_incoming = codes_in(current, base), codes_in(incoming, base)
    names = [*mine, *[""] * (max([*in_current, -1]) + 1 - len(mine))]
    codes: dict[int, int] = {}
    clashes: list[NamesClash] = []
    known = known_codes(current, incoming)
    apart = [("", code, known[code]) for code in sorted(known.keys() - {*in_incoming})]
    both = [(name, *at) for name, *at in zip(old, in_incoming, in_current, strict=True)]
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
                description = (
                    f"one dropped class {shown(was)} of {base.name!r} and added it again, the other"
                )
                clashes.append(
                    NamesClash(f"{description} renamed it to {shown(kept)}", can_be_preferred=False)
                )
        elif here == was:
            names[code] = there
        elif there not in (was, here):
            description = (
                f"both changed class {shown(was or here)} of {base.name!r}: to {shown(here)}, to"
                f" {shown(there)}"
            )
            clashes.append(NamesClash(description, can_be_preferred=True))
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
            f"class name {name!r} of {base.name!r} would denote two classes", can_be_preferred=False
        )
        for name in dict.fromkeys(names)
        if name and names.count(name) > 1
    ]
    table = tuple(codes[code] for code in range(len(other)))
    ids = {**incoming.class_ids_in(table), **current.class_ids}
    return ClassNames(tuple(names), table, ids, tuple(clashes))


def _added(names: Sequence[str], known: Collection[int]) -> dict[str, int]:
    """Return the classes of one side that the other does not know: code by name."""
    return {name: code for code, name in enumerate(names) if name and code not in known}
