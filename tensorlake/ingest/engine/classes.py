"""Classes of a source, followed by its dataset: new ones are added, and renamed ones found again.

A source still has "dog" for the class that a hand has renamed to "hound": the ledger has the class
that each name was ingested as, and values get its present name before they are staged. Sources that
give codes, such as Hugging Face datasets, mean their own lists of names; the codes of the dataset
may be others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from tensorlake.dataset import Dataset, KnownSource, class_codes, class_keys, session_of
from tensorlake.ingest.engine.source import Item, Load, LoadedRows, Source
from tensorlake.types import ClassLabel, Label, LabelArray, as_type

__all__ = ["follow_classes"]

NameOf = Callable[[Any], Any]


def follow_classes(
    dataset: Dataset, source: Source[Item], known: KnownSource, *, adds: bool
) -> tuple[Source[Item], KnownSource, dict[str, list[str]]]:
    """Call the classes of a source as its dataset does.

    Args:
        dataset: The dataset.
        source: The source.
        known: The source as the ledger has it, or is to have it.
        adds: Whether classes are added that the dataset lacks. Staged.

    Returns:
        The source; what the ledger is to have of it; and the classes added, by tensor.
    """
    schema, classes = dict(source.schema), dict(known.classes)
    named: dict[str, NameOf] = {}
    added: dict[str, list[str]] = {}
    for tensor, given in source.schema.items():
        kind, there = as_type(given), dataset.schema.get(tensor)
        if not isinstance(kind, ClassLabel) or not isinstance(there, ClassLabel) or not there.names:
            continue
        spec = _spec(dataset, tensor)
        earlier = known.classes.get(spec.id, {})
        here = dict(zip(kind.names, kind.names, strict=True))
        here |= {
            name: there.names[code]
            for name, code in class_codes(spec, earlier).items()
            if name in here
        }
        own = [*here.values()]
        new = [name for name in dict.fromkeys(own) if name not in there.names]
        if new and adds:
            dataset[tensor].add_names(new)
            added[tensor] = new
        spec = _spec(dataset, tensor)
        classes[spec.id] = {**earlier, **class_keys(spec, here)}
        schema[tensor] = kind.with_names([*dict.fromkeys(own)])
        is_coded = not source.names_classes and own != [*spec.type.names[: len(own)]]
        if is_coded or own != [*kind.names]:
            named[tensor] = partial(_named, here, own if is_coded else ())
    if named:
        source = replace(source, schema=schema, load=partial(_load, source.load, named))
    return source, replace(known, classes=classes), added


def _spec(dataset: Dataset, tensor: str) -> Any:
    return session_of(dataset).snapshot().schema[tensor]


def _load(
    load: Load[Item], named: Mapping[str, NameOf], items: Sequence[Item]
) -> Mapping[str, Any] | LoadedRows:
    loaded = load(items)
    columns = loaded.columns if isinstance(loaded, LoadedRows) else loaded
    converted = {
        tensor: [_each(one, named[tensor]) for one in values] if tensor in named else values
        for tensor, values in columns.items()
    }
    return replace(loaded, columns=converted) if isinstance(loaded, LoadedRows) else converted


def _each(value: Any, name_of: NameOf) -> Any:
    """Name the classes of a value, or of each in a list; labels have their names already."""
    if isinstance(value, Label | LabelArray):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _each(cast("Any", value).tolist(), name_of)
    if isinstance(value, list | tuple):
        return [_each(one, name_of) for one in cast("Sequence[Any]", value)]
    return name_of(value)


def _named(names: Mapping[str, str], by_code: Sequence[str], value: Any) -> Any:
    """Return the name of a class in the dataset, given its name in the source, or its code."""
    if isinstance(value, str):
        return names.get(value, value)
    return by_code[value] if isinstance(value, int) and 0 <= value < len(by_code) else value
