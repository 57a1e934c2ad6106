"""Struct: named fields of other types, stored as a group of tensors.

    "pose": Struct({"joints": Keypoints(), "score": "float32"})     in a schema is the same as
    "pose/joints": Keypoints(), "pose/score": Scalar("float32")

So every field has its own chunks, statistics and encoding, is read and queried alone, and costs
nothing where it is not requested. A struct has no NULL of its own: a row without one is NULL in
every field. Fields that refer to each other (``of=``, ``per=``) are named within the struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import check_flags
from tensorlake.types.base.base import NO_DEFAULT, SampleType
from tensorlake.types.base.registry import as_type

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Struct", "expand_structs"]

SEPARATOR = "/"
Field: TypeAlias = "SampleType | Struct"


@dataclass(frozen=True, slots=True, init=False)
class Struct:
    """Named fields, each with its own type; structs may be fields.

    >>> pose = Struct({"score": "float32", "box": Struct({"x": "int16", "y": "int16"})})
    >>> [*expand_structs({"pose": pose})]
    ['pose/score', 'pose/box/x', 'pose/box/y']

    Attributes:
        fields: The type of each field, or its short form.
    """

    fields: Mapping[str, Field]

    def __init__(
        self,
        fields: Mapping[str, Any],
        *,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> None:
        """Check the fields.

        Args:
            fields: The type of each, or its short form.
            nullable: Whether every field may be NULL.
            default: The value of rows without one: a value for each field, or None.
            personal: Whether every field is about a person; see ``SampleType``.
        """
        if not isinstance(fields, Mapping) or not fields:
            raise SchemaError(
                f"the fields of a struct are {{'name': type, …}}, not empty; got {shown(fields)}"
                '\nwrite Struct({"x": "float32", "y": "float32"})',
                actual=fields,
            )
        check_flags(nullable=nullable, personal=personal)
        defaults = _defaults(fields, default)
        made = {
            _checked_name(name): _field(
                one, nullable=nullable, default=defaults[name], personal=personal
            )
            for name, one in fields.items()
        }
        object.__setattr__(self, "fields", made)

    def describe(self) -> str:
        """Show the fields: ``Struct(score, box)``."""
        return f"Struct({', '.join(self.fields)})"


def expand_structs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with each struct replaced by its fields' tensors; others unchanged."""
    expanded: dict[str, Any] = {}
    for name, one in schema.items():
        parts = _tensors(name, one) if isinstance(one, Struct) else ((name, one),)
        for part, sample_type in parts:
            if part in expanded:
                raise SchemaError(
                    f"two tensors would be named {part!r}\nrename one of them", tensor=part
                )
            expanded[part] = sample_type
    return expanded


def _tensors(group: str, struct: Struct) -> Iterator[tuple[str, SampleType]]:
    for name, one in struct.fields.items():
        path = f"{group}{SEPARATOR}{name}"
        if isinstance(one, Struct):
            yield from _tensors(path, one)
            continue
        cited = {
            key: f"{group}{SEPARATOR}{value}"
            for key in ("of", "per")
            if isinstance(value := getattr(one, key, None), str) and value in struct.fields
        }
        yield path, replace(one, **cited) if cited else one


def _field(value: Any, *, nullable: bool, default: Any, personal: bool) -> Field:
    if isinstance(value, Struct):
        if not (nullable or personal) and default is NO_DEFAULT:
            return value
        return Struct(value.fields, nullable=nullable, default=default, personal=personal)
    declared = as_type(value)
    if nullable:
        declared = replace(declared, nullable=True)
    if personal:
        declared = replace(declared, personal=True)
    return declared if default is NO_DEFAULT else replace(declared, default=default)


def _defaults(fields: Mapping[str, Any], default: Any) -> dict[str, Any]:
    if default is NO_DEFAULT or default is None:
        return dict.fromkeys(fields, default)
    if not isinstance(default, Mapping) or not default.keys() <= fields.keys():
        raise SchemaError(
            f"a struct of {', '.join(map(repr, fields))} cannot have the default {shown(default)}"
            "\ngive a value for some or all of its fields: default={'x': 0}",
            actual=default,
        )
    return {name: default.get(name, NO_DEFAULT) for name in fields}


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name or SEPARATOR in name:
        raise SchemaError(
            f"{name!r} is not a field name\na field's name is a string without {SEPARATOR!r};"
            " a struct within a struct is Struct({'a': Struct({…})})",
            actual=name,
        )
    return name
