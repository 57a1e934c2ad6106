"""Objects at a dataset's place that are not the dataset's: kept by deletions, refused by creations.

    lake/                        a new dataset here ── refused: it would hide a/ and b/
      a/tensorlake.json …        a new dataset in a/ ── refused: it would be inside another one
      NOTES.txt

Only what ``is_own_path`` names belongs to a dataset, so the datasets in folders of another do not.
Hidden files at the top (``.DS_Store``, ``.gitignore``) do not occupy a place: they are not data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.format import COPYING, DESCRIPTOR, is_descriptor, is_own_path
from tensorlake.storage import LocalStore, Store, open_store, runtime

__all__ = ["foreign_objects", "is_dataset", "refuse_occupied"]

DATASETS_NAMED = 3
FOLDERS_EXAMINED = 64
OBJECTS_EXAMINED = 1000
"""Before a creation: one page of an object store's listing, however much is there."""
OWN_FOLDERS = frozenset(("descriptor", "branches", "tags", "gc", "packs", "forgotten", "runs"))
"""Folders of the format: another file in one of them is named by its whole path."""


async def foreign_objects(store: Store) -> list[str]:
    """List what is at a place and not the dataset's, sorted.

    A folder directly at the place, in which nothing is the dataset's, is one item: ``"photos/"``.
    """
    found: set[str] = set()
    async for meta in store.list(""):
        top, slash, _ = meta.path.partition("/")
        if not is_own_path(meta.path):
            found.add(f"{top}/" if slash and top not in OWN_FOLDERS else meta.path)
    return sorted(found)


async def refuse_occupied(store: Store, storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuse to make a dataset where other files are, or inside of another dataset.

    Nothing is refused where a dataset, or an unfinished copy of one, is already: the
    caller decides on it. Without access to list or look, the place is taken to be free.

    Raises:
        InvalidInputError: The place is occupied; nothing was written.
    """
    reads = [partial(_is_made, store), partial(_has, store, COPYING)]
    if any(await runtime.gather_bounded(reads, limit=2)):
        return
    around = await _dataset_around(store, storage_options)
    if around is not None:
        raise InvalidInputError(
            f"{store.url!r} is in {around!r}, which is a dataset: no other one is made inside it"
            "\nchoose a place beside it",
            dataset=store.url,
        )
    found = await _first_page(store)
    if not found:
        return
    datasets = await _datasets_in(store, found)
    if datasets:
        named = ", ".join(repr(one) for one in datasets[:DATASETS_NAMED])
        more = ", …" if len(datasets) > DATASETS_NAMED else ""
        raise InvalidInputError(
            f"{store.url!r} is a lake with datasets ({named}{more}), which a dataset there would"
            f" hide\ngive the new one a name in the lake, such as {_under(store, 'NAME')!r}",
            dataset=store.url,
        )
    raise InvalidInputError(
        f"{store.url!r} holds other files, such as {found[0]!r}: a dataset is made where nothing"
        f" else is\nchoose a new place, such as {store.url.rstrip('/') + '.tl'!r}",
        dataset=store.url,
    )


async def is_dataset(store: Store, prefix: str = "") -> bool:
    """Return whether there is a dataset below a prefix, ``""`` or ``"a/"``; a damaged one is too.

    An object that only has the descriptor's name, such as an old export's types, makes none.
    """
    data = await store.get(f"{prefix}{DESCRIPTOR}")
    return data is not None and is_descriptor(data)


async def _first_page(store: Store) -> list[str]:
    """List what is not a dataset's among the first objects, without hidden files at the top."""
    examined, found = 0, list[str]()
    try:
        if await store.head(DESCRIPTOR) is not None:
            found.append(DESCRIPTOR)  # and no descriptor: refuse_occupied has looked
        async for meta in store.list(""):
            if not meta.path.startswith(".") and not is_own_path(meta.path):
                found.append(meta.path)
            examined += 1
            if examined == OBJECTS_EXAMINED:
                break
    except TensorlakeError:  # may not list, or is no folder: creation itself reports the rest
        return []
    return found


async def _datasets_in(store: Store, paths: list[str]) -> list[str]:
    folders = list(dict.fromkeys(path.partition("/")[0] for path in paths if "/" in path))
    reads = [partial(_is_made, store, f"{folder}/") for folder in folders[:FOLDERS_EXAMINED]]
    found = await runtime.gather_bounded(reads, limit=16)
    return [one for one, is_there in zip(folders, found, strict=False) if is_there]


async def _dataset_around(store: Store, storage_options: Mapping[str, Any] | None) -> str | None:
    if isinstance(store, LocalStore):
        return _local_dataset_around(store.url)
    scheme, _, rest = store.url.partition("://")
    parts = rest.strip("/").split("/")
    urls = [f"{scheme}://{'/'.join(parts[:n])}" for n in range(len(parts) - 1, 0, -1)]
    reads = [partial(_is_dataset, url, storage_options) for url in urls]
    found = await runtime.gather_bounded(reads, limit=16)
    return next((url for url, is_there in zip(urls, found, strict=True) if is_there), None)


def _local_dataset_around(folder: str) -> str | None:
    above = Path(os.path.realpath(folder)).parents
    return next((str(one) for one in above if _is_local_dataset(one / DESCRIPTOR)), None)


def _is_local_dataset(descriptor: Path) -> bool:
    try:
        return is_descriptor(descriptor.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError:  # may not be read: it may be one
        return descriptor.is_file()


async def _is_dataset(url: str, storage_options: Mapping[str, Any] | None) -> bool:
    try:
        return await is_dataset(open_store(url, storage_options=storage_options))
    except TensorlakeError:  # not all folders above need be open to these credentials
        return False


async def _is_made(store: Store, prefix: str = "") -> bool:
    try:
        return await is_dataset(store, prefix)
    except TensorlakeError:
        return False


async def _has(store: Store, path: str) -> bool:
    try:
        return await store.head(path) is not None
    except TensorlakeError:
        return False


def _under(store: Store, name: str) -> str:
    return f"{store.url.rstrip('/')}/{name}"
