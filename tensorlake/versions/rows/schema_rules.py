"""Combination of two schemas, tensor by tensor: one pure function, for a rebase and for a merge.

    base      id 9f… "label"  cat, dog
    current   id 9f… "label"  cat, dog, owl        on the branch: its codes and numbers stay
    incoming  id 9f… "kind"   cat, dog, emu, owl   applied to it; it renamed the tensor, too
    combined  id 9f… "kind"   cat, dog, owl, emu   incoming's codes: 0, 1, 2 → 3, 3 → 2

    current   incoming             in a rebase: the branch's head, staged changes (theirs, ours);
                                  in a merge: the target branch, the merged branch (ours, theirs)

Tensors are matched by id. A change by one side is applied; different changes by both are a
``Clash``, which the preferred side decides field by field. Class names are united by
``rows/class_names.py``. Unique names are assigned last: of two tensors that would share a name, the
preferred side's keeps it. All differences between a rebase and a merge are in their
``CombineRule``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tensorlake.errors import SchemaError
from tensorlake.format import Constraint, Extents, Schema, TensorSpec, check_tensor_name
from tensorlake.types import NO_DEFAULT, ClassLabel, Image, SampleType, is_widening, parse_dtype
from tensorlake.versions.rows.class_names import (
    ClassNames,
    class_names,
    codes_in,
    combine_class_names,
)

__all__ = [
    "Clash",
    "CombineRule",
    "CombinedSchema",
    "CombinedTensor",
    "Misfit",
    "Misfits",
    "ReadAs",
    "SchemaSide",
    "combine_schemas",
    "is_narrower",
    "takes_values_away",
]

SchemaSide = Literal["current", "incoming"]

CITING = ("of", "per")
"""Parameters of types that name another tensor."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How extents made for one spec are read under another.

    Attributes:
        numbers: The new number of each encoding, by its old one.
        codes: The new class code of each old one; None if codes stay.
    """

    numbers: tuple[int, ...]
    codes: tuple[int, ...] | None = None

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.codes is None and self.numbers == tuple(range(len(self.numbers)))

    def of(self, extents: Extents) -> Extents:
        """Return the extents as read by the new spec."""
        return extents if self.is_same else extents.with_read_as(self.numbers, codes=self.codes)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something that a schema declares on tensors, and that does not read them as they are.

    Attributes:
        tensor_id: A tensor that it reads, or read.
        reader: The check or column that reads it: "the check 'ordered'".
        why: Why it cannot be evaluated, or would mean something else.
        advice: The call that drops or replaces it.
    """

    tensor_id: str
    reader: str
    why: str
    advice: str


Misfits = Callable[[Schema], Sequence[Misfit]]
"""Finds the misfits of a schema; provided by the layer that parses conditions."""


@dataclass(frozen=True, slots=True)
class CombineRule:
    """The differences between a rebase and a merge.

    Attributes:
        prefer: The side that decides changes by both.
        branches: Names of the ``current`` and ``incoming`` branches, for the tensor that loses its
            name: ``score~main``.
        drops_are_final: True in a rebase: a dropped class does not come back when the other side
            renames it, nor a dropped tensor when the side that changed it is preferred, because
            staged changes have only some of its values. A merge has them all.
        wanted: By id, tensors that one side dropped and the other wrote to, with the deciding side.
        only: Ids of the tensors that are taken from incoming; None: all.
        misfits: Finds checks and computed columns that do not fit the result: no side decides them.
    """

    prefer: SchemaSide
    branches: tuple[str, str]
    drops_are_final: bool = False
    wanted: Mapping[str, SchemaSide] = field(default_factory=dict[str, SchemaSide])
    only: Collection[str] | None = None
    misfits: Misfits = lambda _: ()


@dataclass(frozen=True, slots=True)
class Clash:
    """A part of the schema that both sides changed differently.

    Attributes:
        kind: "schema" of one tensor, a "name" that two were given, or a "reference" to a tensor.
        tensor_id: The tensor.
        description: Description: "both renamed 'a': to 'b' and to 'c'".
        can_be_preferred: Whether the rule's preferred side can decide it.
    """

    kind: Literal["schema", "name", "reference"]
    tensor_id: str
    description: str
    can_be_preferred: bool = True


@dataclass(frozen=True, slots=True)
class CombinedTensor:
    """One tensor of the result.

    Attributes:
        spec: The resulting spec.
        source: The side that has it.
        read_as: How incoming's extents are read under it.
    """

    spec: TensorSpec
    source: SchemaSide | Literal["both"]
    read_as: ReadAs


@dataclass(frozen=True, slots=True)
class CombinedSchema:
    """A schema with the changes of both sides, and the decisions made.

    Attributes:
        schema: The result: current's tensors, then those that incoming adds.
        tensors: Its tensors, by id.
        clashes: Different changes by both sides, whether or not the rule decided them.
        changes: The changes from the ``current`` schema to it, as log entries record them.
    """

    schema: Schema
    tensors: Mapping[str, CombinedTensor]
    clashes: tuple[Clash, ...]
    changes: tuple[Mapping[str, Any], ...]


def combine_schemas(
    bases: Sequence[Schema], current: Schema, incoming: Schema, rule: CombineRule
) -> CombinedSchema:
    """Apply the changes that led from a base to ``incoming`` to ``current``.

    Args:
        bases: The common bases, newest first: for each tensor the first that has it counts.
        current: The branch's schema.
        incoming: The schema applied to it.
        rule: The preferred side, and the differences between a rebase and a merge.
    """
    combining = _Combining(_by_id(*bases), _by_id(current), _by_id(incoming), rule, [])
    named = combining.with_own_names(dict(combining.tensors()))
    known = [(spec.id, spec.name) for one in (current, incoming) for spec in one.tensors]
    names = dict(known) | {id_: one.spec.name for id_, one in named.items()}
    tensors = {id_: replace(one, spec=_citing(one.spec, names)) for id_, one in named.items()}
    specs = tuple(one.spec for one in tensors.values())
    before = bases[0].constraints if bases else {}
    constraints = combining.constraints(before, current, incoming)
    is_same = specs == current.tensors and constraints == current.constraints
    schema = current if is_same else replace(current, tensors=specs, constraints=constraints)
    changes = tuple(_changes(current, schema))
    clashes = [*combining.clashes]
    if not is_same and all(one.can_be_preferred for one in clashes):
        clashes += _misfits(rule.misfits, schema, current, incoming)
    return CombinedSchema(schema, tensors, tuple(clashes), changes)


def _misfits(find: Misfits, schema: Schema, *sides: Schema) -> Iterator[Clash]:
    """Yield a clash for each misfit of a combined schema that is on neither side."""
    found = find(schema)
    known = {one.reader for side in sides for one in find(side)} if found else set[str]()
    for one in found:
        if one.reader not in known:
            description = f"{one.reader} of one does not fit the tensors of the other: {one.why}"
            yield Clash("reference", one.tensor_id, description, can_be_preferred=False)


def is_narrower(after: TensorSpec, before: TensorSpec) -> bool:
    """Return whether values valid for a tensor on one branch may no longer be valid."""
    if takes_values_away(after, before):
        return True
    if not (isinstance(before.type, ClassLabel) and isinstance(after.type, ClassLabel)):
        return False
    return not set(after.type.dropped) <= set(before.type.dropped)


def takes_values_away(after: TensorSpec, before: TensorSpec) -> bool:
    """Return whether NULL is removed, or a dtype, shape or codec narrowed, as after a restore."""
    if before.type.nullable and not after.type.nullable:
        return True
    if _takes_any_codec(before) and isinstance(after.type, Image) and not _takes_any_codec(after):
        return True
    old, new = before.layout, after.layout
    if old.dtype is None or new.dtype is None:
        return False
    lengths = zip(old.shape, new.shape, strict=False)
    return not (
        (old.dtype == new.dtype or is_widening(parse_dtype(old.dtype), parse_dtype(new.dtype)))
        and len(old.shape) == len(new.shape)
        and all(length in (None, was) for was, length in lengths)
    )


def _takes_any_codec(spec: TensorSpec) -> bool:
    return isinstance(spec.type, Image) and spec.type.codec == "any"


def _by_id(*schemas: Schema) -> dict[str, TensorSpec]:
    """Return specs by tensor id, each from the first schema with it; types cite ids, not names."""
    found: dict[str, TensorSpec] = {}
    for schema in schemas:
        ids = {spec.name: spec.id for spec in schema.tensors}
        for spec in schema.tensors:
            if spec.id not in found:
                found[spec.id] = _citing(spec, ids)
    return found


def _citing(spec: TensorSpec, known: Mapping[str, str]) -> TensorSpec:
    """Rename the other tensor that a type cites (boxes ``of`` an image)."""
    cited = {what: getattr(spec.type, what, None) for what in CITING}
    new = {
        what: known[name]
        for what, name in cited.items()
        if isinstance(name, str) and known.get(name, name) != name
    }
    return replace(spec, type=replace(spec.type, **new)) if new else spec


@dataclass(frozen=True, slots=True)
class _Combining:
    base: Mapping[str, TensorSpec]
    current: Mapping[str, TensorSpec]
    incoming: Mapping[str, TensorSpec]
    rule: CombineRule
    clashes: list[Clash]

    def tensors(self) -> Iterator[tuple[str, CombinedTensor]]:
        """Yield the tensors of the result, under names that may still collide."""
        only = self.rule.only
        for id_ in dict.fromkeys((*self.current, *self.incoming)):
            before = self.base.get(id_)
            here, there = self.current.get(id_), self.incoming.get(id_)
            if only is not None and id_ not in only:
                there, before = None, None
            if here is not None and there is not None:
                yield id_, self._of_both(before, here, there)
                continue
            side: SchemaSide = "current" if there is None else "incoming"
            spec = here or there
            if spec is not None and (before is None or self._stays(before, spec, side)):
                yield id_, CombinedTensor(spec, side, ReadAs(tuple(range(len(spec.encodings)))))

    def constraints(
        self, base: Mapping[str, Constraint], current: Schema, incoming: Schema
    ) -> dict[str, Constraint]:
        """Combine the constraints of both sides, each by its name; recording clashes."""
        here, there = current.constraints, incoming.constraints
        if self.rule.only is not None or dict(here) == dict(there):
            return dict(here)
        found: dict[str, Constraint] = {}
        for name in dict.fromkeys((*here, *there)):
            before, mine, other = base.get(name), here.get(name), there.get(name)
            if before not in (mine, other) and mine != other:
                description = f"both changed the constraint {name!r}"
                of = next(one.inputs[0] for one in (mine, other, before) if one is not None)
                self.clashes.append(Clash("schema", of, description))
            is_theirs = mine == before or (other != before and self.rule.prefer == "incoming")
            one = other if is_theirs else mine
            if one is not None:
                found[name] = one
        return found

    def _stays(self, before: TensorSpec, spec: TensorSpec, side: SchemaSide) -> bool:
        """Return whether a tensor that the other side dropped is in the result."""
        rule = self.rule
        is_final = rule.drops_are_final and side == "incoming"
        if _comparable(spec) == _comparable(before):
            return not is_final and rule.wanted.get(spec.id) == side
        description = f"one dropped {before.name!r}, the other changed its schema"
        is_decided = not is_final or rule.prefer == "current"
        self.clashes.append(Clash("schema", spec.id, description, is_decided))
        return not is_final and rule.wanted.get(spec.id, rule.prefer) == side

    def _of_both(
        self, base: TensorSpec | None, here: TensorSpec, there: TensorSpec
    ) -> CombinedTensor:
        """Combine both sides' versions of a tensor."""
        # Without a base, `current` is used as the base, with no class in common.
        before = base or replace(here, type=_bare(here.type))
        names = self._names(before, here, there)
        codes = None if names is None or _is_same(names.codes) else names.codes
        if names is not None:
            before = _in_terms(before, names, codes_in(here, before))
            here = _in_terms(here, names, None)
            there = _in_terms(there, names, codes)
        spec = replace(here, **self._fields(before, here, there))
        spec, numbers = spec.with_encodings_of(there, codes=codes)
        is_untouched = (here.type, here.layout) == (before.type, before.layout)
        layout = there.layout if is_untouched or spec.type != here.type else here.layout
        if spec.layout != layout:
            spec = replace(spec, encodings=(*spec.encodings, layout))
        return CombinedTensor(spec, "both", ReadAs(numbers, codes))

    def _names(self, base: TensorSpec, here: TensorSpec, there: TensorSpec) -> ClassNames | None:
        """Unite class names; None if there are none."""
        if not (isinstance(here.type, ClassLabel) and isinstance(there.type, ClassLabel)):
            return None
        united = combine_class_names(
            base,
            here,
            there,
            prefers_incoming=self.rule.prefer == "incoming",
            drops_are_final=self.rule.drops_are_final,
        )
        self.clashes.extend(
            Clash("schema", here.id, one.what, one.can_be_preferred) for one in united.clashes
        )
        if all(one.can_be_preferred for one in united.clashes):
            return united
        return ClassNames(class_names(here), tuple(range(len(class_names(there)))), here.class_ids)

    def _fields(self, base: TensorSpec, here: TensorSpec, there: TensorSpec) -> dict[str, Any]:
        """Combine the fields of a tensor except its encodings, recording clashes."""
        before, mine, other = _comparable(base), _comparable(here), _comparable(there)
        if other in (before, mine):
            return mine
        if mine == before:
            return other
        # Types only widen: of two new ones, neither can hold all values of the other's rows.
        can_be_read = other["type"] in (before["type"], mine["type"]) or (
            mine["type"] == before["type"]
        )
        description = f"both changed the schema of {base.name!r}"
        self.clashes.append(Clash("schema", base.id, description, can_be_read))
        loser, winner = (other, mine) if self.rule.prefer == "current" else (mine, other)
        decided = {
            name: loser[name] if winner[name] == before[name] else winner[name] for name in before
        }
        return decided if can_be_read else decided | {"type": mine["type"]}

    def with_own_names(self, tensors: Mapping[str, CombinedTensor]) -> dict[str, CombinedTensor]:
        """Give each tensor a unique name.

        Names are unique on each side, so of two tensors that share one, one has it from
        ``current`` and the other from ``incoming``.
        """
        named, taken = dict(tensors), dict[str, str]()
        everyone = {one.spec.name for one in tensors.values()}
        for id_, one in tensors.items():
            name, other_id = one.spec.name, taken.setdefault(one.spec.name, id_)
            if other_id == id_:
                continue
            is_here = id_ in self.current and self.current[id_].name == name
            here, there = (id_, other_id) if is_here else (other_id, id_)
            loser, branch = (
                (there, self.rule.branches[1])
                if self.rule.prefer == "current"
                else (here, self.rule.branches[0])
            )
            description = (
                f"two different tensors would be called {name!r}:"
                f" {self._origin(here, 'current')}, and {self._origin(there, 'incoming')}"
            )
            new = _free_name(name, branch, everyone)
            self.clashes.append(Clash("name", there, description, can_be_preferred=new is not None))
            # Without a name it is left out: a schema with an undecided clash is never published.
            spec = named.pop(loser).spec
            if new is not None:
                everyone.add(new)
                named[loser] = replace(tensors[loser], spec=replace(spec, name=new))
        return {id_: named[id_] for id_ in tensors if id_ in named}

    def _origin(self, tensor_id: str, side: SchemaSide) -> str:
        branch, other = self.rule.branches
        if side == "incoming":
            branch, other = other, branch
        where = "here" if side == "incoming" and branch == other else f"on {branch!r}"
        before = self.base.get(tensor_id)
        return f"one added {where}" if before is None else f"{before.name!r} as renamed {where}"


def _free_name(name: str, branch: str, taken: Collection[str]) -> str | None:
    """Return ``name~branch``, or the next free variant; None if it is not a valid tensor name."""
    found = f"{name}~{branch}"
    while found in taken:
        found += "~"
    try:
        return check_tensor_name(found)
    except SchemaError:  # too long, or with characters that tensor names must not have
        return None


_SAID = ("name", "type", "fill", "chunk_nbytes", "attributes", "compute", "unknown")


def _comparable(spec: TensorSpec) -> dict[str, Any]:
    """Return all members of a tensor's spec except its encodings, which are united separately."""
    return {name: getattr(spec, name) for name in _SAID}


def _bare(declared: SampleType) -> SampleType:
    """Return a type without its class names and default, which are united separately."""
    if not isinstance(declared, ClassLabel):
        return declared
    return replace(declared, default=NO_DEFAULT).with_names(())


def _is_same(codes: Sequence[int]) -> bool:
    return tuple(codes) == tuple(range(len(codes)))


def _in_terms(spec: TensorSpec, names: ClassNames, codes: Sequence[int] | None) -> TensorSpec:
    """Return a spec with the result's class names, and its default's code, if any, mapped."""
    declared = spec.type
    if not isinstance(declared, ClassLabel):
        return spec
    default = declared.default
    if isinstance(default, int) and codes is not None:
        default = codes[default]
    bare = replace(declared, default=NO_DEFAULT).with_names(names.names)
    return replace(spec, type=replace(bare, default=default), class_ids=names.ids)


def _changes(before: Schema, after: Schema) -> Iterator[dict[str, Any]]:
    if after is before:
        return
    for name in dict.fromkeys((*before.constraints, *after.constraints)):
        old, new = before.constraints.get(name), after.constraints.get(name)
        if old != new and (one := new or old) is not None:
            yield {"op": "metadata", "tensor": one.inputs[0], "name": name}
    old_specs = {spec.id: spec for spec in before.tensors}
    kept = {spec.id for spec in after.tensors}
    yield from (_op("drop", spec) for spec in before.tensors if spec.id not in kept)
    for spec in after.tensors:
        old = old_specs.get(spec.id)
        if old is None:
            yield _op("add", spec)
            continue
        if old.name != spec.name:
            yield _op("rename", spec)
        if class_names(old) != class_names(spec):
            yield _op("names", spec)
        if _bare(old.type) != _bare(spec.type):
            yield _op("type", spec)
        if (old.attributes, old.compute) != (spec.attributes, spec.compute):
            yield _op("metadata", spec)


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}
