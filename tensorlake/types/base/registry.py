"""The registry of sample types: from names, dtypes and JSON to types.

``types/builtin.py`` fills the table with the built-in types; this module imports none of them. A
plug-in is a distribution with an entry point in the group ``tensorlake.types``: its name is the
kind, its object a `SampleType` class. It is loaded when a schema first names an unknown kind
(docs/how-to/add-a-type.md).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import (
    InvalidInputError,
    SchemaError,
    UnsupportedFeatureError,
    did_you_mean,
    shown,
)
from tensorlake.types.base.base import SampleType
from tensorlake.types.base.dtypes import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

__all__ = ["as_type", "fill", "from_json", "loaded_plug_in", "register"]

_ENTRY_POINTS = "tensorlake.types"
_types: dict[str, type[SampleType]] = {}
_short: dict[Any, Callable[[], SampleType]] = {}
_groups: list[type] = []
_scalars: list[Callable[[Any], SampleType]] = []


def fill(
    types: Iterable[type[SampleType]],
    *,
    short: Mapping[Any, Callable[[], SampleType]],
    groups: Iterable[type],
    scalar: Callable[[Any], SampleType],
) -> None:
    """Fill the table, once, with the types that come with tensorlake (`builtin.py`).

    Args:
        types: Known by their kinds.
        short: Short forms such as ``"str"``, each with its type's factory.
        groups: Classes that are declared like types, and are stored as several tensors.
        scalar: Creates the type of a dtype, or raises `SchemaError`.
    """
    _types.update((one.kind, one) for one in types)
    _short.update(short)
    _groups.extend(groups)
    _scalars.append(scalar)


def register(sample_type: type[SampleType]) -> type[SampleType]:
    """Register a type under its `kind`; usable as a class decorator.

    Raises:
        InvalidInputError: Another type has that kind.
    """
    known = _types.setdefault(sample_type.kind, sample_type)
    if known is not sample_type:
        raise InvalidInputError(
            f"the kind {sample_type.kind!r} is already registered by {known.__qualname__}"
            "\ngive the new type a kind of its own",
            actual=sample_type.kind,
        )
    return sample_type


def from_json(data: Mapping[str, Any]) -> SampleType:
    """Return the type that `SampleType.to_json` described.

    >>> from_json({"kind": "scalar", "dtype": "int8"})
    Scalar('int8')

    Raises:
        UnsupportedFeatureError: The kind is unknown here.
        SchemaError: A parameter is missing or invalid.
    """
    kind = data.get("kind")
    if kind not in _types:
        _load_plug_in(str(kind))
    if kind not in _types:
        raise UnsupportedFeatureError(
            f"the dataset has a tensor of type {kind!r}, unknown to this version"
            "\nupgrade tensorlake, or install the plug-in that provides it",
            actual=kind,
        )
    return _types[str(kind)].from_json(data)


def as_type(value: Any) -> SampleType:
    """Return the type of a schema's short form; `value` is the user's entry.

    >>> as_type("float32").describe(), as_type("str").describe(), as_type(bool).describe()
    ('Scalar(float32)', 'Text', 'Bool')

    Raises:
        SchemaError: It is not a type.
    """
    if isinstance(value, SampleType):
        return value
    if isinstance(value, tuple(_groups)):
        raise SchemaError(
            f"{value.describe()} is a group of tensors, and is only allowed in a schema or a Struct"
            "\nfor lists of structs write Sequence(Struct({…}))",
            actual=value,
        )
    if isinstance(value, type) and issubclass(value, SampleType):
        try:
            return value()
        except TypeError as error:
            raise SchemaError(
                f"{value.__name__} needs parameters: {error}\nwrite them: {value.__name__}(…)",
                actual=value,
            ) from error
    if isinstance(value, (str, type)) and value in _short:
        return _short[value]()
    if isinstance(value, (str, type, np.dtype)):
        try:
            return _scalars[0](value)
        except SchemaError:
            pass  # raised below, with the other short forms
    names = (*DTYPE_NAMES, *(name for name in _short if isinstance(name, str)), *_types)
    hint = did_you_mean(value, names)
    for kind, one in _types.items():
        if kind not in _short and hint.endswith(f" {kind!r}?"):  # a kind is not a short form
            hint = f"; did you mean tl.{one.__name__}()?"
    raise SchemaError(
        f"{shown(value)} is not a type of samples{hint}"
        "\ngive a type such as tl.Image(), a dtype name such as 'float32', or 'str'",
        actual=value,
    )


def loaded_plug_in(entry_point: EntryPoint, *, provides: str) -> tuple[Any, str]:
    """Load a plug-in of any kind; return its object, and words for it that begin a message.

    Args:
        entry_point: Where it is.
        provides: Words for what it provides, such as "the type 'spectrum'".

    Raises:
        UnsupportedFeatureError: It cannot be loaded.
    """
    where = f"the plug-in {entry_point.value!r}, which provides {provides},"
    try:
        return entry_point.load(), where
    except (ImportError, AttributeError) as error:
        raise UnsupportedFeatureError(
            f"{where} cannot be loaded: {error}\nreinstall it with its dependencies",
            actual=entry_point.name,
        ) from error


def _load_plug_in(kind: str) -> None:
    for entry_point in entry_points(group=_ENTRY_POINTS, name=kind):
        loaded, where = loaded_plug_in(entry_point, provides=f"the type {kind!r}")
        if not (isinstance(loaded, type) and issubclass(loaded, SampleType)):
            raise UnsupportedFeatureError(
                f"{where} is not a SampleType but {loaded!r}\nreport this to its author",
                actual=kind,
            )
        if getattr(loaded, "kind", None) != kind:
            raise UnsupportedFeatureError(
                f"{where} has the kind {getattr(loaded, 'kind', None)!r}"
                "\nthe entry point's name must equal the type's kind",
                actual=kind,
            )
        register(loaded)
