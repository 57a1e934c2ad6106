"""Cuts: tensors declared ``of=`` another are read at the place of its part.

    ct    decode: RandomPatch((96, 96, 96), center_on="mask")     the lead: its step, its draw
     ▲
     └── of ── mask, pet                                          the same box, without decode=

A request needs the shape of the lead, and the map of the mask on which patches are centred, both
from headers, for each of them. Frames of videos are also moved alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from tensorlake.errors import IndependentDrawsWarning, InvalidInputError, did_you_mean, shown
from tensorlake.loader.decode import DecodeSpec
from tensorlake.types import Link, TiledSamples, Video

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.decode import PartStep
    from tensorlake.loader.plan.selection import Schema
    from tensorlake.types import SampleType

__all__ = ["Cuts", "decoded_as", "warn_of_other_draws"]

Bounds: TypeAlias = Callable[[str], tuple[tuple[int, ...], tuple[int, ...]] | None]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Which tensors are read at the place of which.

    Attributes:
        specs: The steps of each tensor; of one that is cut with another, with its part step.
        leads: The tensor that gives the place, by the name of each that is cut with it.
        types: The types of the columns that are tensors.
    """

    specs: Mapping[str, DecodeSpec]
    leads: Mapping[str, str]
    types: Mapping[str, SampleType]

    @classmethod
    def of(cls, specs: Mapping[str, DecodeSpec], names: Iterable[str], schema: Schema) -> Cuts:
        """Find the leads of the columns of a batch.

        Raises:
            InvalidInputError: A tensor has another part step than its lead, or cannot be cut.
        """
        types = {name: decoded_as(schema[name].type) for name in names if name in schema}
        leads = {
            name: lead
            for name, one in types.items()
            if one.has_parts and (lead := _lead(name, specs, types, schema)) is not None
        }
        made = dict(specs)
        for name, lead in leads.items():
            made[name] = _cut_spec(name, types[name], specs.get(name), specs[lead])
        found = cls(made, leads, types)
        for name, spec in made.items():
            found._check_needs(name, spec)
            found._check_picture(name, spec)
        return found

    def others(self, name: str) -> dict[str, SampleType]:
        """Return the types of the tensors on whose samples requests for a tensor depend."""
        part = self.specs[name].part if name in self.specs else None
        if part is None:
            return {}
        needed = dict.fromkeys((self.leads.get(name, name), *part.needs))
        return {one: self.types[one] for one in needed if one != name}

    def _check_picture(self, name: str, spec: DecodeSpec) -> None:
        """Refuse parts of a tensor that is ``of=`` another, which is read whole beside it."""
        if spec.part is None or not spec.part.moves or name in self.leads:
            return
        other = getattr(self.types[name], "of", None)
        if not isinstance(other, str) or other not in self.types:
            return
        if other in self.specs and self.specs[other].part is not None:
            return
        step = type(spec.part).__name__
        given = f"decode of {name!r}: {step} chooses a part of it, and {other!r}, which it is"
        advice = f"leave {other!r} out of columns="
        if self.types[other].has_parts:
            advice = f"give the step to {other!r}: {name!r} is cut with it; or {advice}"
        raise InvalidInputError(
            f"{given} declared of=, is read whole: their pixels would not be the same\n{advice}",
            tensor=name,
            actual=spec.part,
        )

    def _check_needs(self, name: str, spec: DecodeSpec) -> None:
        """Refuse masks on which patches cannot be centred."""
        lead = self.leads.get(name, name)
        for mask in () if spec.part is None else spec.part.needs:
            given = f"decode of {name!r}: center_on={mask!r}"
            if mask not in self.types:
                hint = did_you_mean(mask, self.types)
                raise InvalidInputError(
                    f"{given} is not among the tensors that are read{hint}\nadd it to columns=",
                    tensor=name,
                    actual=mask,
                )
            own = self.types[mask]
            if not isinstance(own, TiledSamples) or not own.has_parts:
                raise InvalidInputError(
                    f"{given} is {own.describe()}, which is not stored in tiles\nstore it as"
                    f" tl.SegmentMask(names, of={lead!r}, tiles={(32,) * len(own.shape) or (32,)})",
                    tensor=name,
                    actual=mask,
                )
            if self.leads.get(mask, mask) != lead:
                raise InvalidInputError(
                    f"{given} is not declared of={lead!r}: its voxels need not be those of"
                    f" {lead!r}\ndeclare it: tl.SegmentMask(names, of={lead!r})",
                    tensor=name,
                    actual=mask,
                )


def _lead(
    name: str,
    specs: Mapping[str, DecodeSpec],
    types: Mapping[str, SampleType],
    schema: Schema,
) -> str | None:
    """Return the first tensor of a chain of ``of=`` that is read and has a part step, its last."""
    found, seen = None, {name}
    other = getattr(schema[name].type, "of", None)
    while isinstance(other, str) and other in schema and other not in seen:
        seen.add(other)
        part = specs[other].part if other in specs and other in types else None
        if part is not None and part.cuts_others:
            found = other
        other = getattr(schema[other].type, "of", None)
    return found


def _cut_spec(
    name: str, sample_type: SampleType, own: DecodeSpec | None, lead: DecodeSpec
) -> DecodeSpec:
    """Return the steps of a tensor that is cut with its lead."""
    part = lead.part
    assert part is not None, "it leads"
    if own is not None and own.part is not None and own.part != part:
        raise InvalidInputError(
            f"decode of {name!r}: {shown(own.part)} is not the part of {lead.tensor!r}, which"
            f" {name!r} is declared of=: {shown(part)}\nleave {name!r} out of decode=: it is read"
            " at the same place; to read another part, leave of= out of its type",
            tensor=name,
            actual=own.part,
        )
    part.check_cut(sample_type, name)
    if part.gives_boxes:
        return _turned_spec(name, own, lead)
    if own is not None:
        return replace(own, part=part)
    if not (part.gives_images and lead.geometric):
        return DecodeSpec(name, (), (), part)
    if not isinstance(sample_type, Video):
        raise InvalidInputError(
            f"decode of {lead.tensor!r} moves pixels of frames, and {name!r}"
            f" ({sample_type.describe()}), which is declared of= it, cannot be moved with them"
            f"\nleave {name!r} out of columns=, or the geometric steps out of decode=",
            tensor=name,
        )
    return DecodeSpec(lead.tensor, lead.geometric, (), part)  # its name draws the numbers


def _turned_spec(name: str, own: DecodeSpec | None, lead: DecodeSpec) -> DecodeSpec:
    """Return the steps of a tensor whose boxes are mirrored and turned with those of its lead."""
    if own is not None and own.geometric and own.geometric != lead.geometric:
        raise InvalidInputError(
            f"decode of {name!r}: {own.geometric!r} are not the steps of {lead.tensor!r}, which"
            f" {name!r} is declared of=: {lead.geometric!r}\nleave them out: {name!r} is mirrored"
            " and turned with it",
            tensor=name,
            actual=own.geometric,
        )
    made = own or DecodeSpec(name, (), ())
    return replace(made, part=lead.part, geometric=lead.geometric)


def decoded_as(sample_type: SampleType) -> SampleType:
    """Return the type whose parts are decoded: of links to files with parts, the files' type."""
    if isinstance(sample_type, Link) and sample_type.linked.has_parts:
        return sample_type.linked
    return sample_type


def warn_of_other_draws(planned: Iterable[ColumnPlan], bounds: Bounds, *, stacklevel: int) -> None:
    """Warn where tensors of equal shapes are cut at different places by one random step."""
    drawn = [one for one in planned if one.parts is not None and one.parts.lead is None]
    for one, other in combinations(drawn, 2):
        first, second = _random_part(one), _random_part(other)
        if first is None or first != second or one.type is None or other.type is None:
            continue
        if type(one.type) is not type(other.type) and one.type.shape != other.type.shape:
            continue
        if (stored := bounds(one.name)) is None or stored != bounds(other.name):
            continue
        warnings.warn(
            f"decode cuts {one.name!r} and {other.name!r} by {shown(first)}, each at a place of its"
            " own, and their samples have equal shapes: for parts of the same place, declare one of"
            f" the other, as with of={one.name!r}, and leave it out of decode=",
            IndependentDrawsWarning,
            stacklevel=stacklevel,
        )


def _random_part(column: ColumnPlan) -> PartStep | None:
    part = None if column.parts is None else column.parts.step
    return part if part is not None and part.draws_place else None
