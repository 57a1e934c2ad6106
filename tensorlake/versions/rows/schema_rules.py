"""Two schemas as one, tensor by tensor: one pure function, for a rebase and for a merge.

    base      id 9f… "label"  cat, dog
    standing  id 9f… "label"  cat, dog, owl        what the branch has: its codes and numbers stay
    incoming  id 9f… "kind"   cat, dog, emu, owl   what is applied to it; it renamed the tensor, too
    combined  id 9f… "kind"   cat, dog, owl, emu   incoming's codes: 0, 1, 2 → 3, 3 → 2

    standing  incoming             in a rebase: the branch's head, what is staged (theirs, ours);
                                   in a merge: the branch merged into, the one merged (ours, theirs)

A tensor is followed by its id. What one side changed is taken; what both changed differently is a
``Clash``, and the preferred side decides it field by field. Class names are united by
``rows/class_names.py``. Tensors get names of their own last: of two that would share one, the
preferred side's keeps it. All in which a rebase and a merge differ is in their ``CombineRule``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tensorlake.errors import SchemaError
from tensorlake.format import Extents, Schema, TensorSpec, check_tensor_name
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
    "ReadAs",
    "SchemaSide",
    "combine_schemas",
    "is_narrower",
    "takes_values_away",
]

SchemaSide = Literal["standing", "incoming"]

CITING = ("of", "per")
"""Parameters of types that name another tensor."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How extents that were made for one spec are read under another one.

    Attributes:
        numbers: The new number of each encoding, by its old one.
        codes: What each class code becomes; None where codes stay.
    """

    numbers: tuple[int, ...]
    codes: tuple[int, ...] | None = None

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.codes is None and self.numbers == tuple(range(len(self.numbers)))

    def of(self, extents: Extents) -> Extents:
        """The extents as the new spec reads them."""
        return extents if self.is_same else extents.with_read_as(self.numbers, codes=self.codes)


@dataclass(frozen=True, slots=True)
class CombineRule:
    """What a rebase and a merge do differently.

    Attributes:
        prefer: Who decides where both changed one thing.
        branches: Of the standing and the incoming side, for the tensor that loses its name:
            ``score~main``.
        drops_are_final: A rebase: what was dropped does not come back, no class by the other's
            renaming it, and no tensor by preferring who changed it, for staged changes have only
            some of its values. A merge has them all.
        wanted: By id, tensors that one side dropped and the other wrote to, and whose word counts.
        only: Ids of the tensors that are taken from incoming; None: all.
    """

    prefer: SchemaSide
    branches: tuple[str, str]
    drops_are_final: bool = False
    wanted: Mapping[str, SchemaSide] = field(default_factory=dict[str, SchemaSide])
    only: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Clash:
    """Something of the schema that both sides changed, differently.

    Attributes:
        kind: "schema" of one tensor, or a "name" that two were given.
        tensor_id: The tensor.
        told: In words: "both renamed 'a': to 'b' and to 'c'".
        can_be_preferred: Whether the rule's side decides it.
    """

    kind: Literal["schema", "name"]
    tensor_id: str
    told: str
    can_be_preferred: bool = True


@dataclass(frozen=True, slots=True)
class CombinedTensor:
    """One tensor of the result.

    Attributes:
        spec: As the result has it.
        source: Which side has it.
        read_as: How incoming's extents are read under it.
    """

    spec: TensorSpec
    source: SchemaSide | Literal["both"]
    read_as: ReadAs


@dataclass(frozen=True, slots=True)
class CombinedSchema:
    """A schema that holds the changes of both sides, and what was decided on the way.

    Attributes:
        schema: The result: standing's tensors, then those that incoming adds.
        tensors: Its tensors, by id.
        clashes: What both changed, whether or not the rule decided it.
        changes: What the standing schema goes through to become it, as log entries record it.
    """

    schema: Schema
    tensors: Mapping[str, CombinedTensor]
    clashes: tuple[Clash, ...]
    changes: tuple[Mapping[str, Any], ...]


def combine_schemas(
    bases: Sequence[Schema], standing: Schema, incoming: Schema, rule: CombineRule
) -> CombinedSchema:
    """Apply the changes that led from a base to ``incoming`` to ``standing``.

    Args:
        bases: What both started from, newest first: of each tensor the first that has it counts.
        standing: What the branch has.
        incoming: What is applied to it.
        rule: Who decides, and what a rebase and a merge do differently.
    """
    combining = _Combining(_by_id(*bases), _by_id(standing), _by_id(incoming), rule, [])
    named = combining.with_own_names(dict(combining.tensors()))
    known = [(spec.id, spec.name) for one in (standing, incoming) for spec in one.tensors]
    names = dict(known) | {id_: one.spec.name for id_, one in named.items()}
    tensors = {id_: replace(one, spec=_citing(one.spec, names)) for id_, one in named.items()}
    specs = tuple(one.spec for one in tensors.values())
    schema = standing if specs == standing.tensors else replace(standing, tensors=specs)
    changes = tuple(_changes(standing, schema))
    return CombinedSchema(schema, tensors, tuple(combining.clashes), changes)


def is_narrower(after: TensorSpec, before: TensorSpec) -> bool:
    """Whether values that fitted a tensor on one branch need not fit it any more."""
    if takes_values_away(after, before):
        return True
    if not (isinstance(before.type, ClassLabel) and isinstance(after.type, ClassLabel)):
        return False
    return not set(after.type.dropped) <= set(before.type.dropped)


def takes_values_away(after: TensorSpec, before: TensorSpec) -> bool:
    """Whether NULL is gone, or a dtype, shape or codec narrower, as of a restored version."""
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
    """Specs by tensor id, of the first schema that has each; types cite ids, for names change."""
    found: dict[str, TensorSpec] = {}
    for schema in schemas:
        ids = {spec.name: spec.id for spec in schema.tensors}
        for spec in schema.tensors:
            if spec.id not in found:
                found[spec.id] = _citing(spec, ids)
    return found


def _citing(spec: TensorSpec, known: Mapping[str, str]) -> TensorSpec:
    """Let a type that speaks of another tensor (boxes ``of`` an image) call it otherwise."""
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
    standing: Mapping[str, TensorSpec]
    incoming: Mapping[str, TensorSpec]
    rule: CombineRule
    clashes: list[Clash]

    def tensors(self) -> Iterator[tuple[str, CombinedTensor]]:
        """The tensors of the result, under names that may still be the same."""
        only = self.rule.only
        for id_ in dict.fromkeys((*self.standing, *self.incoming)):
            before = self.base.get(id_)
            here, there = self.standing.get(id_), self.incoming.get(id_)
            if only is not None and id_ not in only:
                there, before = None, None
            if here is not None and there is not None:
                yield id_, self._of_both(before, here, there)
                continue
            side: SchemaSide = "standing" if there is None else "incoming"
            spec = here or there
            if spec is not None and (before is None or self._stays(before, spec, side)):
                yield id_, CombinedTensor(spec, side, ReadAs(tuple(range(len(spec.encodings)))))

    def _stays(self, before: TensorSpec, spec: TensorSpec, side: SchemaSide) -> bool:
        """Whether a tensor is in the result that the other side dropped."""
        rule = self.rule
        is_final = rule.drops_are_final and side == "incoming"
        if _said(spec) == _said(before):
            return not is_final and rule.wanted.get(spec.id) == side
        told = f"one dropped {before.name!r}, the other changed its schema"
        is_decided = not is_final or rule.prefer == "standing"
        self.clashes.append(Clash("schema", spec.id, told, is_decided))
        return not is_final and rule.wanted.get(spec.id, rule.prefer) == side

    def _of_both(
        self, base: TensorSpec | None, here: TensorSpec, there: TensorSpec
    ) -> CombinedTensor:
        """Combine what two sides made of a tensor."""
        # Without a base, what was there before is taken to be standing, with no class in common.
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
        """Unite class names; None where there are none."""
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
        """What the sides say of a tensor, but for its encodings, noting where both changed it."""
        before, mine, other = _said(base), _said(here), _said(there)
        if other in (before, mine):
            return mine
        if mine == before:
            return other
        # Types only widen: of two new ones, neither has room for all that the other's rows hold.
        can_be_read = other["type"] in (before["type"], mine["type"]) or (
            mine["type"] == before["type"]
        )
        told = f"both changed the schema of {base.name!r}"
        self.clashes.append(Clash("schema", base.id, told, can_be_read))
        loser, winner = (other, mine) if self.rule.prefer == "standing" else (mine, other)
        decided = {
            name: loser[name] if winner[name] == before[name] else winner[name] for name in before
        }
        return decided if can_be_read else decided | {"type": mine["type"]}

    def with_own_names(self, tensors: Mapping[str, CombinedTensor]) -> dict[str, CombinedTensor]:
        """Give each tensor a name of its own.

        A name is given once on each side, so of two tensors that share one, one has it from
        standing and the other from incoming.
        """
        named, taken = dict(tensors), dict[str, str]()
        everyone = {one.spec.name for one in tensors.values()}
        for id_, one in tensors.items():
            name, other_id = one.spec.name, taken.setdefault(one.spec.name, id_)
            if other_id == id_:
                continue
            is_here = id_ in self.standing and self.standing[id_].name == name
            here, there = (id_, other_id) if is_here else (other_id, id_)
            loser, branch = (
                (there, self.rule.branches[1])
                if self.rule.prefer == "standing"
                else (here, self.rule.branches[0])
            )
            told = (
                f"two different tensors would be called {name!r}:"
                f" {self._origin(here, 'standing')}, and {self._origin(there, 'incoming')}"
            )
            new = _free_name(name, branch, everyone)
            self.clashes.append(Clash("name", there, told, can_be_preferred=new is not None))
            # Without a name it is left out: nobody publishes what has an undecided clash.
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
    """``name~branch``, or the next like it that is free; None where no tensor can be called so."""
    found = f"{name}~{branch}"
    while found in taken:
        found += "~"
    try:
        return check_tensor_name(found)
    except SchemaError:  # too long, or the branch's name has what a tensor's must not
        return None


_SAID = ("name", "type", "fill", "chunk_nbytes", "attributes", "unknown")


def _said(spec: TensorSpec) -> dict[str, Any]:
    """All that is said of a tensor but its encodings, which are united by themselves."""
    return {name: getattr(spec, name) for name in _SAID}


def _bare(declared: SampleType) -> SampleType:
    """A type without what is united by itself: its class names, one of which may be its default."""
    if not isinstance(declared, ClassLabel):
        return declared
    return replace(declared, default=NO_DEFAULT).with_names(())


def _is_same(codes: Sequence[int]) -> bool:
    return tuple(codes) == tuple(range(len(codes)))


def _in_terms(spec: TensorSpec, names: ClassNames, codes: Sequence[int] | None) -> TensorSpec:
    """A spec with the result's class names; its default's code, if it has one, mapped to them."""
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
        if old.attributes != spec.attributes:
            yield _op("metadata", spec)


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}
