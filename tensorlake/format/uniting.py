"""One tensor's spec from two: what a merge, or a commit that lost its race, makes of both.

Its encodings are ours, then theirs; ``read_as`` says what theirs' extents are read as from now on,
and ``codes`` what becomes of theirs' class codes (types/class_names.py has the rule):

    theirs' extents.with_read_as(united.read_as, codes=united.codes)

Of everything else one side's change is taken, and equal changes of both are one; two that differ
conflict. The name counts like that too; a tensor renamed here and widened there was changed once
in each respect, but a schema change at a time is what people can follow: that is a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from tensorlake.format.schema import TensorSpec
from tensorlake.types import ClassLabel, NamesConflict, unite_class_names

__all__ = ["SpecConflict", "UnitedSpec", "unite_specs"]


@dataclass(frozen=True, slots=True)
class UnitedSpec:
    """What two specs of one tensor become.

    Attributes:
        spec: Ours, with what theirs changed.
        read_as: The number in `spec` of each of theirs' encodings.
        codes: The class code here of each of theirs' codes; None where all stay.
    """

    spec: TensorSpec
    read_as: tuple[int, ...]
    codes: tuple[int, ...] | None

    @property
    def changes_theirs(self) -> bool:
        """Whether theirs' extents are to be read as something else than before."""
        return self.codes is not None or self.read_as != tuple(range(len(self.read_as)))


@dataclass(frozen=True, slots=True)
class SpecConflict:
    """Why two specs of one tensor cannot be one.

    Attributes:
        what: "schema": both changed it; "names": class names contradict each other.
        names: How class names do; None for "schema".
    """

    what: Literal["schema", "names"]
    names: NamesConflict | None = None


def unite_specs(
    base: TensorSpec, ours: TensorSpec, theirs: TensorSpec
) -> UnitedSpec | SpecConflict:
    """Unite what two sides made of one tensor (the three have one id)."""
    our_rest, their_rest, base_rest = map(_without_names, (ours, theirs, base))
    if our_rest not in (base_rest, their_rest) and their_rest != base_rest:
        return SpecConflict("schema")
    spec = ours if our_rest != base_rest else replace(theirs, encodings=ours.encodings)
    codes: tuple[int, ...] | None = None
    if (
        isinstance(spec.type, ClassLabel)
        and isinstance(base.type, ClassLabel)
        and isinstance(ours.type, ClassLabel)
        and isinstance(theirs.type, ClassLabel)
    ):
        united = unite_class_names(base.type.names, ours.type.names, theirs.type.names)
        if isinstance(united, NamesConflict):
            return SpecConflict("names", united)
        codes = united.codes
        ids = {**theirs.class_ids_in(codes), **ours.class_ids}
        spec = replace(spec, type=spec.type.with_names(united.names), class_ids=ids)
    spec, read_as = spec.with_encodings_of(theirs, codes=codes)
    newest = (ours if our_rest != base_rest else theirs).layout
    if spec.layout != newest:
        spec = replace(spec, encodings=(*spec.encodings, newest))
    return UnitedSpec(spec, read_as, codes)


def _without_names(spec: TensorSpec) -> dict[str, Any]:
    """All that is said of a tensor but its class names and encodings, which unite by themselves."""
    written = spec.to_json()
    kind = {key: one for key, one in written["type"].items() if key not in ("names", "dropped")}
    rest = {key: one for key, one in written.items() if key not in ("encodings", "class_ids")}
    return rest | {"type": kind}
