"""Class names of a merge: which class of the base is which on each side, and one list for all.

A code keeps its class for as long as a branch goes on by itself. Where a merge united names,
theirs' codes may have become others, so a later merge that has a version of *theirs* as its base
finds the base's classes by name; by the code maps among the tensor's encodings, where a class was
moved and then renamed; else by code (it was renamed where it is):

    base     cat dog owl          left@2
    ours     cat dog emu owl      which merged left@2 before: its code 2 is 3 here
    theirs   cat dog owl yak      left@3: 2 → 3, and yak, which is new, → 4
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlake.format import TensorSpec
from tensorlake.types import ClassLabel

__all__ = ["ClassNames", "NamesClash", "class_names", "codes_in", "merge_class_names"]


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
        names: By code; ours keep theirs.
        codes: The code here of each of theirs' codes.
        clashes: What both changed, decided for the preferred side or not.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    clashes: tuple[NamesClash, ...] = ()


def class_names(spec: TensorSpec) -> tuple[str, ...]:
    """The class names of a tensor, by code; none where it has no classes."""
    return tuple(spec.type.names) if isinstance(spec.type, ClassLabel) else ()


def codes_in(side: TensorSpec, base: TensorSpec) -> tuple[int, ...]:
    """Tell for each class of an older spec of a tensor which code it has in a newer one.

    >>> older = TensorSpec.new("label", ClassLabel(["cat", "dog", "owl"]))
    >>> codes_in(TensorSpec.new("label", ClassLabel(["cat", "hound", "emu", "owl"])), older)
    (0, 1, 3)
    """
    names = class_names(side)
    found: list[int] = []
    for code, name in enumerate(class_names(base)):
        if code < len(names) and names[code] == name:
            found.append(code)
        elif name and name in names:
            found.append(names.index(name))
        else:
            found.append(_moved(side, code))
    return tuple(found)


def _moved(side: TensorSpec, code: int) -> int:
    """Where the maps of earlier merges put a code; itself where none moved it."""
    maps = (encoding.codes for encoding in side.encodings)
    moved = {codes[code] for codes in maps if codes is not None and code < len(codes)} - {code}
    return min(moved) if len(moved) == 1 else code


def merge_class_names(
    base: TensorSpec, ours: TensorSpec, theirs: TensorSpec, *, prefer_theirs: bool
) -> ClassNames:
    """Unite the class names of two sides, each class followed from the base."""
    old, mine, other = class_names(base), class_names(ours), class_names(theirs)
    in_ours, in_theirs = codes_in(ours, base), codes_in(theirs, base)
    names = [*mine, *[""] * (max([*in_ours, -1]) + 1 - len(mine))]
    codes: dict[int, int] = {}
    clashes: list[NamesClash] = []
    for name, our_code, their_code in zip(old, in_ours, in_theirs, strict=True):
        codes[their_code] = our_code
        x = names[our_code]
        y = other[their_code] if their_code < len(other) else ""
        if not (x and y):
            names[our_code] = x or y  # dropped by one side only: the other's rows may have it
        elif x not in (name, y) and y != name:
            told = f"both changed class {name!r} of {base.name!r}: to {x!r} and to {y!r}"
            clashes.append(NamesClash(told, can_be_preferred=True))
            names[our_code] = y if prefer_theirs else x
        elif x == name:
            names[our_code] = y
    own = {name: code for code, name in enumerate(names) if code not in in_ours and name}
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
    return ClassNames(tuple(names), table, tuple(clashes))
