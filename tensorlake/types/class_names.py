"""Class names that grew apart, on two branches or in two writers' hands, brought to one list.

A code keeps its class for ever, so up to the count that both sides began with a code is the
identity: a class may be renamed, or dropped, by one side; by both only alike. Classes added since
are the same where their names are; those of *theirs* that ours lacks get the next codes.

    base     cat dog          ours     cat hound cow         theirs   cat dog hen cow
    united   cat hound cow hen                   theirs' codes   0 1 2 3 → 0 1 3 2

A dropped class is the empty name: its code is never given to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DROPPED", "NamesConflict", "UnitedNames", "unite_class_names"]

DROPPED = ""
"""The name of a class that was dropped."""


@dataclass(frozen=True, slots=True)
class UnitedNames:
    """Class names of both sides.

    Attributes:
        names: By code.
        codes: The code here of each of theirs' codes; None where all stay.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class NamesConflict:
    """Why two lists of class names cannot be one.

    Attributes:
        code: The class both changed; None where one name stands for two classes.
        ours: Its name on our side, "" where it was dropped.
        theirs: Its name on theirs.
    """

    code: int | None
    ours: str
    theirs: str


def unite_class_names(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> UnitedNames | NamesConflict:
    """Unite class names of two sides that began with the same.

    >>> unite_class_names(["cat", "dog"], ["cat", "hound", "cow"], ["cat", "dog", "hen", "cow"])
    UnitedNames(names=('cat', 'hound', 'cow', 'hen'), codes=(0, 1, 3, 2))
    >>> unite_class_names(["cat"], ["puss"], ["kitty"])
    NamesConflict(code=0, ours='puss', theirs='kitty')
    """
    ours, theirs = _at_least(len(base), ours), _at_least(len(base), theirs)
    names: list[str] = []
    for code, (was, our, their) in enumerate(zip(base, ours, theirs, strict=False)):
        if our not in (was, their) and their != was:
            return NamesConflict(code, our, their)
        names.append(our if our != was else their)
    kept = set(names) - {DROPPED}
    if len(kept) < len(names) - names.count(DROPPED):
        twice = next(name for name in kept if names.count(name) > 1)
        return NamesConflict(None, twice, twice)
    added = [name for name in (*ours[len(base) :], *theirs[len(base) :]) if name]
    if clash := next((name for name in added if name in kept), None):
        return NamesConflict(None, clash, clash)
    names += ours[len(base) :]
    code_of = {name: code for code, name in enumerate(names) if name}
    codes = list(range(len(base)))
    for name in theirs[len(base) :]:
        if name == DROPPED or name not in code_of:
            codes.append(len(names))
            code_of[name] = len(names)
            names.append(name)
        else:
            codes.append(code_of[name])
    is_same = codes == list(range(len(codes)))
    return UnitedNames(tuple(names), None if is_same else tuple(codes))


def _at_least(count: int, names: Sequence[str]) -> tuple[str, ...]:
    """Fewer names than before: the last classes are gone, as when an old version was restored."""
    return (*names, *[DROPPED] * (count - len(names)))
