"""Schemas: the tensors of a version, each with its type and how its chunks are encoded.

    {"tensors": [{"id": "9f3c…", "name": "image", "type": {"kind": "image", "codec": "jpeg"},
                  "encodings": [{"kind": "encoded", "dtype": "uint8", "shape": [null, null, 3],
                                 "codecs": [{"name": "bytes"}]}],
                  "fill": null, "chunk_nbytes": 8388608, "attributes": {}}]}

A tensor is known by its id, 40 random bits that are never used again; its name may change. It
keeps every encoding that its chunks ever had: an extent's `read_as` is an index into `encodings`.
Samples of an older encoding are converted to the tensor's type on reading: class codes go through
the encoding's `codes`, elements are cast, one shape becomes many. New chunks get the last encoding
without `codes`. Schemas are values: a change returns a new one. Keys that this version does not
know
are kept and written back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from tensorlake.errors import (
    SchemaError,
    TensorNotFoundError,
    UnsupportedFeatureError,
    did_you_mean,
    shown,
)
from tensorlake.format.chunk.layout import KIND_NAMES, ChunkLayout
from tensorlake.format.entry.compute import Compute
from tensorlake.format.entry.constraints import Constraint, constraints_from_json
from tensorlake.format.entry.names import check_tensor_id, check_tensor_name, new_tensor_id
from tensorlake.format.spec.integrity import damaged
from tensorlake.types import (
    ClassLabel,
    Column,
    SampleType,
    Unsupported,
    as_type,
    check_scaled,
    expand_structs,
    from_json,
    have_one_shape,
    with_tiles_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Schema", "TensorSpec"]

TENSOR_FEATURES = frozenset({"expression", "parts"})
"""Features of tensors that this version can read; one with another is refused alone."""
MAX_ENCODINGS = 1 << 16  # an extent's read_as is a u16
_SPEC_KEYS = (
    "id", "name", "type", "encodings", "fill", "chunk_nbytes", "attributes",
    "class_ids", "compute", "features",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor of a schema.

    Attributes:
        encodings: All encodings of its chunks; the last without codes is for new ones.
        fill: The value of rows without one, as JSON; None is NULL.
        attributes: The user's own JSON.
        unknown: Keys of other versions, preserved.
        layout: The encoding of new chunks.
        read_as: The number of that encoding.
        holds_codes: Whether samples are class codes.
        is_supported: Whether this version can read the tensor.
        class_ids: For each class added since the tensor was created: an id that is the same in
            all branches, and its code here. Two where two branches added one class by name, and
        merged.
        compute: How its samples are computed; None where users assign them.
    """

    id: str
    name: str
    type: SampleType
    encodings: tuple[ChunkLayout, ...]
    fill: Any = None
    chunk_nbytes: int = 0
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    unknown: dict[str, Any] = field(default_factory=dict[str, Any])
    class_ids: Mapping[str, int] = field(default_factory=dict[str, int])
    compute: Compute | None = None
    layout: ChunkLayout = field(init=False, repr=False, compare=False)
    read_as: int = field(init=False, repr=False, compare=False)
    holds_codes: bool = field(init=False, repr=False, compare=False)
    is_supported: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_tensor_name(self.name)
        if all(encoding.codes is not None for encoding in self.encodings):
            raise SchemaError(f"the tensor {self.name!r} has no encoding\ngive at least one")
        if len(self.encodings) > MAX_ENCODINGS:
            raise SchemaError(
                f"{self.name!r} was changed so often that it has {len(self.encodings):,} encodings;"
                f" a tensor has at most {MAX_ENCODINGS:,}\nadd a new tensor and drop this one",
                tensor=self.name,
            )
        own = [at for at, encoding in enumerate(self.encodings) if encoding.codes is None]
        object.__setattr__(self, "layout", self.encodings[own[-1]])
        object.__setattr__(self, "read_as", own[-1])
        object.__setattr__(self, "holds_codes", self.type.query_kind == "label")
        object.__setattr__(self, "is_supported", not isinstance(self.type, Unsupported))

    @classmethod
    def new(
        cls,
        name: str,
        sample_type: Any,
        *,
        codecs: str | Iterable[Mapping[str, Any]] | None = None,
        chunk_nbytes: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        tensor_id: str | None = None,
    ) -> Self:
        """Make the spec of a new tensor; `sample_type` is a type or its short form."""
        declared = as_type(sample_type)
        return cls(
            tensor_id or new_tensor_id(),
            check_tensor_name(name),
            declared,
            (ChunkLayout.of(declared, codecs=codecs),),
            declared.fill_value if declared.has_default else None,
            chunk_nbytes or declared.chunk_nbytes,
            dict(attributes or {}),
        )

    @property
    def features(self) -> list[str]:
        """The features that a reader of the tensor must support."""
        if isinstance(self.type, Unsupported):
            return list(self.type.features)
        needed = {"expression": self.is_virtual, "parts": self.type.has_parts}
        return [name for name, is_needed in needed.items() if is_needed]

    @property
    def is_virtual(self) -> bool:
        """Whether it is an expression of other tensors, evaluated when it is read."""
        return self.compute is not None and self.compute.tql is not None

    @property
    def is_derived(self) -> bool:
        """Whether its stored samples come from a function: results, or reasons of failures."""
        return self.compute is not None and self.compute.tql is None

    @property
    def has_function(self) -> bool:
        """Whether its samples are results of a function over other tensors."""
        return self.compute is not None and bool(self.compute.code)

    def check_supported(self) -> None:
        """Raise an error where this version cannot read the tensor.

        Raises:
            UnsupportedFeatureError: It lacks the tensor's type or a feature.
        """
        if isinstance(self.type, Unsupported):
            raise self.type.error(self.name)

    def encoding(self, read_as: int) -> ChunkLayout:
        """Return the encoding that an extent of the tensor is read as.

        Raises:
            CorruptionError: The tensor has none of this number.
        """
        if read_as < len(self.encodings):
            return self.encodings[read_as]
        why = f"an extent is read as encoding {read_as}, and there are {len(self.encodings)}"
        raise damaged(f"the index of tensor {self.name!r}", why)

    def adapt(self, column: Column, read_as: int, *, where: str = "a chunk") -> Column:
        """Convert a decoded column to the tensor's type.

        Args:
            column: Samples of a chunk of the encoding `read_as`.
            read_as: Which of the tensor's encodings.
            where: Which object the chunk is, for errors.

        Raises:
            CorruptionError: A class code is beyond the encoding's table.
        """
        if read_as == self.read_as:
            return column
        return self.type.adapt(self.encoding(read_as).with_codes_mapped(column, where=where))

    def with_encoding(self, encoding: ChunkLayout) -> tuple[Self, int]:
        """Return the spec with an encoding that chunks may be read as, and its number."""
        if encoding in self.encodings:
            return self, self.encodings.index(encoding)
        if encoding.codes is None and encoding != self.layout:
            # The last without codes is for new chunks: that one stays the last.
            at = (*self.encodings, encoding, self.layout)
            return replace(self, encodings=at), len(self.encodings)
        return replace(self, encodings=(*self.encodings, encoding)), len(self.encodings)

    def with_code_map(
        self, codes: Sequence[int], *, read_as: int | None = None
    ) -> tuple[Self, int]:
        """Return the spec with an encoding that maps class codes, and its number.

        Args:
            codes: The new meaning of each code of the tensor's type.
            read_as: The encoding that chunks were read as before; None: that of new ones.
        """
        before = self.encodings[self.read_as if read_as is None else read_as]
        return self.with_encoding(replace(before, codes=_composed(before.codes, codes)))

    def with_encodings_of(
        self, other: TensorSpec, *, codes: Sequence[int] | None = None
    ) -> tuple[Self, tuple[int, ...]]:
        """Return the spec with all encodings of the same tensor's spec elsewhere.

        Args:
            other: The tensor as another branch has it.
            codes: The code that each of the other's class codes is to mean here; None: itself.

        Returns:
            The spec, and the number here of each encoding there: what its extents are read as.
        """
        spec, numbers = self, list[int]()
        for encoding in other.encodings:
            mapped = encoding
            if codes is not None:
                mapped = replace(encoding, codes=_composed(encoding.codes, codes))
            spec, number = spec.with_encoding(mapped)
            numbers.append(number)
        return spec, tuple(numbers)

    def with_classes(self, names: Sequence[str]) -> Self:
        """Return the spec with other class names; codes beyond those it had get ids.

        Args:
            names: By code; "" is a class that was dropped.
        """
        assert isinstance(self.type, ClassLabel)
        added = range(len(self.type.names), len(names))
        ids = {new_tensor_id(): code for code in added}
        return replace(self, type=self.type.with_names(names), class_ids={**self.class_ids, **ids})

    def class_ids_in(self, codes: Sequence[int] | None) -> dict[str, int]:
        """Return the ids with the codes that classes have elsewhere; None: the same."""
        if codes is None:
            return dict(self.class_ids)
        return {id_: codes[code] for id_, code in self.class_ids.items()}

    def with_type(self, sample_type: SampleType) -> Self:
        """Return the spec with another type; a new layout is added to the encodings."""
        layout = ChunkLayout.of(sample_type)
        same = (layout.kind, layout.dtype, layout.shape) == (
            self.layout.kind,
            self.layout.dtype,
            self.layout.shape,
        )
        encodings = self.encodings if same else (*self.encodings, layout)
        return replace(self, type=sample_type, encodings=encodings)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON, with what other versions wrote."""
        unknown = dict(self.unknown)
        unknown_type = unknown.pop("type", {})
        return unknown | {
            "id": self.id,
            "name": self.name,
            "type": unknown_type | self.type.to_json(),
            "encodings": [encoding.to_json() for encoding in self.encodings],
            "fill": self.fill,
            "chunk_nbytes": self.chunk_nbytes,
            "attributes": self.attributes,
            **({"features": features} if (features := self.features) else {}),
            **({"class_ids": dict(self.class_ids)} if self.class_ids else {}),
            **({"compute": self.compute.to_json()} if self.compute else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        A type or a feature that is unknown here makes the type `Unsupported`.

        Raises:
            SchemaError: It is not a spec.
        """
        try:
            encodings = tuple(ChunkLayout.from_json(encoding) for encoding in data["encodings"])
            sample_type = _type_of(data, encodings[-1])
            is_known = not isinstance(sample_type, Unsupported)
            known = _SPEC_KEYS if is_known else {*_SPEC_KEYS} - {"class_ids", "compute"}
            unknown = {key: value for key, value in data.items() if key not in known}
            own = {"kind", *type(sample_type).__dataclass_fields__}
            unknown_type = {key: one for key, one in data["type"].items() if key not in own}
            unknown_type = unknown_type if is_known else {}
            if unknown_type:
                unknown["type"] = unknown_type
            spec = cls(
                check_tensor_id(data["id"]),
                data["name"],
                sample_type,
                encodings,
                data["fill"],
                int(data["chunk_nbytes"]),
                dict(data["attributes"]),
                unknown,
                _class_ids(data.get("class_ids", {}) if is_known else {}, sample_type),
                Compute.from_json(data["compute"]) if is_known and "compute" in data else None,
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(
                f"{data!r:.200} is not a tensor of a schema: {error!r}"
                "\nthe schema was written by another program, or is damaged"
            ) from error
        return spec


def _type_of(data: Mapping[str, Any], encoding: ChunkLayout) -> SampleType:
    """Return the type of a stored spec; `Unsupported` where a reader of it needs more than this."""
    features: list[Any] = list(data.get("features", ()))
    missing = [name for name in features if name not in TENSOR_FEATURES]
    try:
        sample_type = from_json(data["type"])
        lacks = f"it needs the feature {missing[0]!r}, unknown to this version" if missing else ""
    except UnsupportedFeatureError as error:
        sample_type, lacks = None, str(error).partition("\n")[0]
    if sample_type is not None and not lacks:
        return sample_type
    layout: Any = KIND_NAMES[encoding.kind]
    return Unsupported.of(
        data["type"],
        lacks,
        features=map(str, features),
        layout=layout,
        dtype=encoding.dtype,
        shape=encoding.shape,
    )


def _class_ids(written: Mapping[str, int], sample_type: SampleType) -> dict[str, int]:
    names = len(sample_type.names) if isinstance(sample_type, ClassLabel) else 0
    if any(type(code) is not int or not 0 <= code < names for code in written.values()):
        raise ValueError(f"{written!r} are not ids of its {names} classes")
    return dict(written)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tensors of a version, in the order in which users see them.

    Attributes:
        tensors: The tensors.
        unknown: Keys of a newer version, kept as they were read.
        constraints: Conditions on its rows and unique keys, by name.
        by_name: The tensors by name.
        names: The tensors' names, in order.
        stored: Those of the tensors that are not virtual.
        paired: The tensors declared ``per=`` another of them, each with that other.
        cut: The tensors declared ``of=`` another whose shape they have, each with that other: those
            in parts of ones in parts, and masks of images.
    """

    tensors: tuple[TensorSpec, ...] = ()
    unknown: dict[str, Any] = field(default_factory=dict[str, Any])
    constraints: Mapping[str, Constraint] = field(default_factory=dict[str, Constraint])
    stored: tuple[str, ...] = field(init=False, repr=False, compare=False)
    by_name: Mapping[str, TensorSpec] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    paired: tuple[tuple[TensorSpec, TensorSpec], ...] = field(init=False, repr=False, compare=False)
    cut: tuple[tuple[TensorSpec, TensorSpec], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for what in ("name", "id"):
            values = [getattr(tensor, what) for tensor in self.tensors]
            twice = [value for value in values if values.count(value) > 1] if values else []
            if twice:
                raise SchemaError(
                    f"two tensors have the {what} {twice[0]!r}\nrename or drop one", tensor=twice[0]
                )
        by_name = {tensor.name: tensor for tensor in self.tensors}
        items = ((tensor, by_name.get(getattr(tensor.type, "per", ""))) for tensor in self.tensors)
        paired = tuple((tensor, other) for tensor, other in items if other is not None)
        named = ((tensor, getattr(tensor.type, "of", None)) for tensor in self.tensors)
        leads = ((one, by_name[of]) for one, of in named if isinstance(of, str) and of in by_name)
        cut = tuple((one, lead) for one, lead in leads if have_one_shape(one.type, lead.type))
        object.__setattr__(self, "by_name", by_name)
        object.__setattr__(self, "names", tuple(by_name))
        stored = tuple(tensor.name for tensor in self.tensors if not tensor.is_virtual)
        object.__setattr__(self, "stored", stored)
        object.__setattr__(self, "paired", paired)
        object.__setattr__(self, "cut", cut)

    @classmethod
    def new(cls, tensors: Mapping[str, Any]) -> Self:
        """Make a schema from names and types, or their short forms, as users write it."""
        types = {name: as_type(one) for name, one in expand_structs(tensors).items()}
        made = with_tiles_of(types, {})
        check_scaled(made, {})
        return cls(tuple(TensorSpec.new(name, one) for name, one in made.items()))

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[TensorSpec]:
        return iter(self.tensors)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.by_name

    def __getitem__(self, name: str) -> TensorSpec:
        """Return the tensor of this name.

        Raises:
            TensorNotFoundError: There is none.
        """
        if name in self:
            return self.by_name[name]
        hint = did_you_mean(name, self.names)
        raise TensorNotFoundError(
            f"no tensor {shown(name)}{hint}\ntensors: {', '.join(self.names) or 'none'}",
            tensor=name,
            expected=self.names,
        )

    def by_id(self, tensor_id: str) -> TensorSpec | None:
        """Return the tensor of this id, whatever its name; None if there is none."""
        return next((tensor for tensor in self.tensors if tensor.id == tensor_id), None)

    def add(self, spec: TensorSpec) -> Self:
        """Return the schema with one more tensor, at the end.

        Raises:
            SchemaError: Its name or id is taken.
        """
        return replace(self, tensors=(*self.tensors, spec))

    def drop(self, name: str) -> Self:
        """Return the schema without the tensor of this name."""
        gone = self[name]
        return replace(self, tensors=tuple(one for one in self.tensors if one is not gone))

    def rename(self, old: str, new: str) -> Self:
        """Return the schema with a tensor renamed; it keeps its id and place.

        Raises:
            SchemaError: The new name is taken, or cannot be.
        """
        return self.replace(replace(self[old], name=check_tensor_name(new)))

    def replace(self, spec: TensorSpec) -> Self:
        """Return the schema with the tensor of this id replaced."""
        if self.by_id(spec.id) is None:
            raise TensorNotFoundError(
                f"no tensor has the id {spec.id!r} of {spec.name!r}\nadd it instead",
                tensor=spec.name,
            )
        tensors = tuple(spec if one.id == spec.id else one for one in self.tensors)
        return replace(self, tensors=tensors)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON, with what other versions wrote."""
        named = {name: one.to_json() for name, one in self.constraints.items()}
        own = {"tensors": [tensor.to_json() for tensor in self.tensors]}
        return self.unknown | own | ({"constraints": named} if named else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            SchemaError: It is not a schema.
        """
        try:
            if not isinstance(data["tensors"], list):
                raise TypeError("the tensors are not a list")  # noqa: TRY301 - as what else is wrong
            specs = tuple(TensorSpec.from_json(one) for one in data["tensors"])
            constraints = constraints_from_json(data.get("constraints", {}))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(
                f"{data!r:.200} is not a schema\nit was written by another program, or is damaged"
            ) from error
        known = ("tensors", "constraints")
        return cls(specs, {k: one for k, one in data.items() if k not in known}, constraints)


def _composed(first: Sequence[int] | None, then: Sequence[int]) -> tuple[int, ...] | None:
    """One table of codes for two, one after the other; None where every code stays itself."""
    whole = tuple(then) if first is None else tuple(then[code] for code in first)
    return None if whole == tuple(range(len(whole))) else whole
