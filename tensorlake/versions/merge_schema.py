"""The schema of a merge: three schemas become one, tensor by tensor, known by their ids.

    base      id 9f… "label"  cat, dog
    ours      id 9f… "label"  cat, dog, owl             both added a class
    theirs    id 9f… "kind"   cat, dog, emu, owl        theirs renamed the tensor, too
    merged    id 9f… "kind"   cat, dog, owl, emu        theirs' codes: 0, 1, 2 → 3, 3 → 2

Specs that both have are united by ``format/uniting.py``: what one side changed is taken, class
names added by both are united by name, and ours keep their codes. Names of tensors are settled
last: of two that would share one, one becomes ``<name>~<branch>``. What both changed differently
is a ``Clash``, whether or not a preference decides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tensorlake.format import Schema, SpecConflict, TensorSpec, unite_specs
from tensorlake.types import NO_DEFAULT, ClassLabel, SampleType

__all__ = ["Clash", "MergedSchema", "MergedTensor", "Preference", "merge_schemas"]

Preference = Literal["ours", "theirs"]
Source = Literal["ours", "theirs", "both"]

CITING = ("of", "per")
"""Parameters of types that name another tensor."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Something of the schema that both sides changed, differently.

    Attributes:
        tensor_id: The tensor.
        what: In words: "both renamed 'a': to 'b' and to 'c'".
        can_be_preferred: Whether "ours" or "theirs" decides it.
    """

    tensor_id: str
    what: str
    can_be_preferred: bool = True


@dataclass(frozen=True, slots=True)
class MergedTensor:
    """One tensor of the result.

    Attributes:
        spec: As the result has it.
        source: Which side has it.
        numbers: What each ``read_as`` of theirs is in the result.
        codes: What each class code of theirs is in the result; None: the same.
    """

    spec: TensorSpec
    source: Source
    numbers: tuple[int, ...] = ()
    codes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class MergedSchema:
    """The schema of the result, and what was decided on the way.

    Attributes:
        schema: The result.
        tensors: Its tensors, by id.
        clashes: What both changed, whether or not the preference decided it.
        changes: What ours' schema goes through to become it, as log entries record it.
    """

    schema: Schema
    tensors: Mapping[str, MergedTensor]
    clashes: tuple[Clash, ...]
    changes: tuple[Mapping[str, Any], ...]


def merge_schemas(
    bases: Sequence[Schema],
    ours: Schema,
    theirs: Schema,
    *,
    kept: Mapping[str, Source | None],
    prefer: Preference,
    branches: tuple[str, str],
) -> MergedSchema:
    """Merge the schemas of two versions.

    Args:
        bases: Of the merge bases, newest first: of each tensor the first that has it counts.
        ours: One side's.
        theirs: The other's.
        kept: For each tensor id of either, which sides have it in the result; None: dropped.
        prefer: Who decides where both changed the same.
        branches: Names of ours' and theirs' branch.
    """
    merging = _Merging(prefer, [])
    tensors: dict[str, MergedTensor] = {}
    order = [*(spec.id for spec in ours.tensors), *(spec.id for spec in theirs.tensors)]
    for tensor_id in dict.fromkeys(order):
        source = kept.get(tensor_id)
        mine, other = ours.by_id(tensor_id), theirs.by_id(tensor_id)
        if source == "ours" and mine is not None:
            tensors[tensor_id] = MergedTensor(_citing_ids(mine, ours), source)
        elif source == "theirs" and other is not None:
            numbers = tuple(range(len(other.encodings)))
            tensors[tensor_id] = MergedTensor(_citing_ids(other, theirs), source, numbers)
        elif source == "both" and mine is not None and other is not None:
            schemas = (schema for schema in bases if schema.by_id(tensor_id) is not None)
            base_schema = next(schemas, None)
            base = None if base_schema is None else base_schema.by_id(tensor_id)
            if base_schema is not None and base is not None:
                base = _citing_ids(base, base_schema)
            tensors[tensor_id] = merging.both(
                base, _citing_ids(mine, ours), _citing_ids(other, theirs)
            )
    named = _with_own_names(tensors, merging, branches)
    cited = {id_: one.spec.name for id_, one in named.items()}
    result = {
        id_: replace(one, spec=_citing_names(one.spec, cited, (ours, theirs)))
        for id_, one in named.items()
    }
    schema = replace(ours, tensors=tuple(one.spec for one in result.values()))
    return MergedSchema(schema, result, tuple(merging.clashes), tuple(_changes(ours, schema)))


@dataclass(frozen=True, slots=True)
class _Merging:
    prefer: Preference
    clashes: list[Clash]

    def both(self, base: TensorSpec | None, mine: TensorSpec, other: TensorSpec) -> MergedTensor:
        """Merge a tensor that both sides have."""
        # Without a base, what was there before is taken to be ours, with no class in common.
        before = base or replace(mine, type=_bare(mine.type))
        united = unite_specs(before, mine, other)
        while isinstance(united, SpecConflict):
            mine, other = self._decided(united, before, mine, other)
            united = unite_specs(before, mine, other)
        return MergedTensor(united.spec, "both", united.read_as, united.codes)

    def _decided(
        self, conflict: SpecConflict, base: TensorSpec, mine: TensorSpec, other: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        """Note a conflict, and let the preferred side alone have changed what it is about."""
        loser, winner = (other, mine) if self.prefer == "ours" else (mine, other)
        if conflict.names is None:
            # The loser's samples must be readable as the winner's type: types only ever widen.
            is_readable = _bare(loser.type) in (_bare(base.type), _bare(winner.type))
            told = f"both changed the schema of {base.name!r}"
            self.clashes.append(Clash(base.id, told, is_readable))
            loser = _with_names(replace(base, encodings=loser.encodings), _names_of(loser))
        elif conflict.names.code is None:
            told = f"class {conflict.names.ours!r} of {base.name!r} would stand for two classes"
            self.clashes.append(Clash(base.id, told, can_be_preferred=False))
            names = _names_of(base)
            return _with_names(mine, names), _with_names(other, names)
        else:
            code, names = conflict.names.code, [*_names_of(loser)]
            told = (
                f"both changed class {_names_of(base)[code]!r} of {base.name!r}:"
                f" to {conflict.names.ours!r} and to {conflict.names.theirs!r}"
            )
            self.clashes.append(Clash(base.id, told))
            names[code] = _names_of(base)[code]
            loser = _with_names(loser, names)
        return (winner, loser) if self.prefer == "ours" else (loser, winner)


def _bare(declared: SampleType) -> SampleType:
    """A type without what is merged by itself: its class names, one of which may be its default."""
    if not isinstance(declared, ClassLabel):
        return declared
    return replace(declared, default=NO_DEFAULT).with_names(())


def _names_of(spec: TensorSpec) -> Sequence[str]:
    return spec.type.names if isinstance(spec.type, ClassLabel) else ()


def _with_names(spec: TensorSpec, names: Sequence[str]) -> TensorSpec:
    declared = spec.type
    return (
        replace(spec, type=declared.with_names(names)) if isinstance(declared, ClassLabel) else spec
    )


def _with_own_names(
    tensors: Mapping[str, MergedTensor], merging: _Merging, branches: tuple[str, str]
) -> dict[str, MergedTensor]:
    """Give each tensor a name of its own."""
    named = dict(tensors)
    taken: dict[str, str] = {}
    for tensor_id, one in tensors.items():
        other_id = taken.setdefault(one.spec.name, tensor_id)
        if other_id == tensor_id:
            continue
        told = f"two different tensors would be called {one.spec.name!r}"
        merging.clashes.append(Clash(tensor_id, told))
        # Ours come first, so the second of the name is the one that theirs brought.
        loser = tensor_id if merging.prefer == "ours" else other_id
        branch = branches[1] if merging.prefer == "ours" else branches[0]
        name = f"{one.spec.name}~{branch}"
        while name in taken or any(name == known.spec.name for known in tensors.values()):
            name = f"{name}~{branch}"
        taken[one.spec.name] = other_id if loser == tensor_id else tensor_id
        taken[name] = loser
        named[loser] = replace(named[loser], spec=replace(named[loser].spec, name=name))
    return named


def _citing_ids(spec: TensorSpec, schema: Schema) -> TensorSpec:
    """Let a type that names another tensor cite its id: names may change."""
    return _cited(spec, {other.name: other.id for other in schema.tensors})


def _citing_names(
    spec: TensorSpec, names: Mapping[str, str], schemas: Sequence[Schema]
) -> TensorSpec:
    known = {other.id: other.name for schema in schemas for other in schema.tensors}
    return _cited(spec, {**known, **names})


def _cited(spec: TensorSpec, names: Mapping[str, str]) -> TensorSpec:
    cited: dict[str, str] = {}
    for parameter in CITING:
        name = getattr(spec.type, parameter, None)
        if isinstance(name, str) and name in names:
            cited[parameter] = names[name]
    return replace(spec, type=replace(spec.type, **cited)) if cited else spec


def _changes(before: Schema, after: Schema) -> list[dict[str, Any]]:
    found = [_op("drop", spec) for spec in before.tensors if after.by_id(spec.id) is None]
    for spec in after.tensors:
        old = before.by_id(spec.id)
        if old is None:
            found.append(_op("add", spec))
            continue
        if old.name != spec.name:
            found.append(_op("rename", spec))
        if tuple(_names_of(old)) != tuple(_names_of(spec)):
            found.append(_op("names", spec))
        if _bare(old.type) != _bare(spec.type):
            found.append(_op("type", spec))
        if old.attributes != spec.attributes:
            found.append(_op("attributes", spec))
    return found


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}
