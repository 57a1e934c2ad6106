"""The tensors of a known source: followed where a hand renamed or dropped them.

The ledger has the id of the tensor that each column of a source fills. A column fills that tensor
whatever its name is now; a column whose tensor was dropped is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorlake.dataset import Dataset, KnownSource, session_of
from tensorlake.errors import TensorNotFoundError
from tensorlake.ingest.engine.source import Item, LoadedRows, Source
from tensorlake.types import as_type

__all__ = ["follow_tensors", "tensors_of"]


def tensors_of(dataset: Dataset, source: Source[Any]) -> list[str]:
    """Return the dataset's tensors that the source fills, in the order of the source."""
    names = list(dataset.schema)
    return [name for given in source.schema for name in names if _is_in(name, given)]


def follow_tensors(
    dataset: Dataset, source: Source[Item], known: KnownSource | None
) -> tuple[Source[Item], list[str]]:
    """Give the columns of a source the names that their tensors have now.

    Args:
        dataset: The dataset.
        source: The source.
        known: The source as the ledger has it; None: it is new.

    Returns:
        The source, and words about tensors that one side no longer has.

    Raises:
        TensorNotFoundError: The source has a column that the dataset never had.
        SchemaError: That column has the name of a virtual one.
    """
    schema = session_of(dataset).snapshot().schema
    ids = dict(known.tensors) if known is not None else {}
    renamed: dict[str, str] = {}
    dropped: list[str] = []
    for name in source.schema:
        spec = schema.by_id(ids[name]) if name in ids else None
        if spec is not None:
            renamed[name] = spec.name
        elif any(_is_in(one, name) for one in schema.names) or name in source.optional:
            continue
        elif any(_is_in(one, name) for one in ids):
            dropped.append(name)
        else:
            source.refuse_virtual(name)
            raise _new_column(dataset, source, name)
    words = [
        f"{name!r} was dropped from the dataset: the values of the source are left out"
        for name in dropped
    ]
    used = {*renamed.values(), *source.schema}
    for name, id_ in ids.items():
        spec = schema.by_id(id_)
        is_filled = spec is None or any(_is_in(spec.name, one) for one in used)
        if not is_filled and name not in source.optional and name not in source.absent:
            words.append(f"{name!r} is no longer in the source: its values stay")
    renamed = {name: now for name, now in renamed.items() if name != now}
    if not renamed and not dropped:
        return source, words
    return _with_names(source, renamed, dropped), words


def _with_names(
    source: Source[Item], renamed: Mapping[str, str], dropped: Collection[str]
) -> Source[Item]:
    """Rename and leave out columns."""
    read = source.load

    def named(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {renamed.get(name, name): columns[name] for name in columns if name not in dropped}

    def load(items: Sequence[Item]) -> Mapping[str, Any] | LoadedRows:
        loaded = read(items)
        if isinstance(loaded, LoadedRows):
            return replace(loaded, columns=named(loaded.columns))
        return named(loaded)

    return replace(
        source,
        schema=named(source.schema),
        load=load,
        content=[renamed.get(name, name) for name in source.content],
        optional={renamed.get(name, name) for name in source.optional},
        absent={renamed.get(name, name) for name in source.absent},
    )


def _new_column(dataset: Dataset, source: Source[Item], name: str) -> TensorNotFoundError:
    kind = replace(as_type(source.schema[name]), nullable=True)
    return TensorNotFoundError(
        f"the source has {name!r} ({kind.describe()}), and {dataset.url!r} has no such tensor"
        f"\nto add it: ds = tl.open({dataset.url!r}); ds.add_tensor({name!r}, tl.{kind!r});"
        " ds.commit(); then repeat the call",
        tensor=name,
        dataset=dataset.url,
    )


def _is_in(name: str, given: str) -> bool:
    return name == given or name.startswith(f"{given}/")
