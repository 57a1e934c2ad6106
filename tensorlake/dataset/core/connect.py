"""From a URL to a session: creating, finding and opening datasets, below the user's handles."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tensorlake.dataset.core.session import Place, Session
from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    SchemaError,
    TensorlakeError,
    VersionNotFoundError,
    shown,
)
from tensorlake.format import (
    COPYING,
    DESCRIPTOR,
    DESCRIPTORS,
    MAIN,
    Descriptor,
    Schema,
    entry_path,
    head_path,
    is_own_path,
)
from tensorlake.quantities import Duration, duration_of
from tensorlake.storage import (
    LakeStore,
    LocalStore,
    Store,
    is_lake_url,
    open_store,
    place_text,
    refuse_query,
    runtime,
    split_url,
)
from tensorlake.versions import (
    Background,
    BranchLog,
    Resolved,
    create_dataset,
    foreign_objects,
    is_dataset,
    read_descriptor,
    refuse_forgotten,
    refuse_occupied,
    resolve,
    what_remains,
)

__all__ = [
    "Durability",
    "Found",
    "connect",
    "connect_new",
    "delete",
    "exists",
    "has_remains",
    "left_by_deletion",
    "list_datasets",
    "reconnect",
    "walk_lake",
]

Durability: TypeAlias = Literal["fsync", "none"]
LEAST_GRACE_S = 60
DAY_S = 86_400


def connect_new(
    url: str | PathLike[str],
    schema: Mapping[str, Any] | None,
    *,
    exist_ok: bool = False,
    grace: Duration = "24h",
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
    durability: Durability = "fsync",
    check: Callable[[Schema], object] | None = None,
) -> Session:
    """Create a dataset, as by ``tl.create``, and open a session on its branch ``main``.

    ``check`` refuses a schema before anything is written.
    """
    declared, grace_s = _declared(schema), _grace_s(grace)
    if check is not None:
        check(declared)
    options = _options(storage_options, durability, token)
    store = _open_store(url, options)
    if isinstance(store, LakeStore):  # the server creates it, and decides where
        types = {spec.name: spec.type.to_json() for spec in declared.tensors}
        runtime.run(store.make_dataset(types, grace=_grace_text(grace, grace_s), exist_ok=exist_ok))
        return _open(store, _resolve(store, None, options), options=options)
    runtime.run(refuse_occupied(store, options["storage_options"] or None))
    created = runtime.run(
        create_dataset(store, declared.to_json(), grace_s=grace_s, exist_ok=exist_ok)
    )
    session = _open(store, created, options=options)
    if exist_ok:
        _check_same(session, declared)
    return session


def connect(
    url: str | PathLike[str],
    version: str | dt.datetime | None = None,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
    durability: Durability = "fsync",
) -> Session:
    """Open a session on a branch or version of a dataset, as by ``tl.open``."""
    options = _options(storage_options, durability, token)
    store = _open_store(url, options)
    return _open(store, _resolve(store, version, options), read_only=read_only, options=options)


def exists(
    url: str | PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> bool:
    """Return whether there is a dataset at a URL.

    Example:
        >>> import tensorlake as tl
        >>> tl.exists("memory://doc-exists")
        False
    """
    store = _open_store(url, _options(storage_options, "fsync", token))
    return runtime.run(is_dataset(store))


def list_datasets(
    url: str | PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> list[str]:
    """List the datasets under a URL, sorted; ``"."`` if the URL itself is one.

    Example:
        >>> import tensorlake as tl
        >>> for name in ("cats", "dogs"):
        ...     tl.create(f"memory://doc-list/{name}", {"x": "int64"}).close()
        >>> tl.list("memory://doc-list")
        ['cats', 'dogs']
    """
    found = walk_lake(url, storage_options=storage_options, token=token)
    return [one.name for one in found if one.state == "whole"]


list_datasets.__module__, list_datasets.__name__ = "tensorlake", "list"  # as users type it
list_datasets.__qualname__ = "list"


@dataclass(frozen=True, slots=True)
class Found:
    """A dataset of a lake.

    Attributes:
        name: Its path in the lake; ``"."`` for the lake's own URL.
        state: ``"damaged"``: its descriptor is gone, so that it does not open;
            ``"copying"``: a copy that is incomplete.
    """

    name: str
    state: Literal["whole", "damaged", "copying"]


def walk_lake(
    url: str | PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> list[Found]:
    """Find the datasets under a URL, those that do not open among them, sorted by name."""
    store = _open_store(url, _options(storage_options, "fsync", token))
    if isinstance(store, LakeStore):
        return [Found(name, "whole") for name in runtime.run(store.dataset_names())]
    return runtime.run(_walk(store))


def delete(
    url: str | PathLike[str],
    *,
    confirm: str | PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> list[str]:
    """Remove a dataset with all versions, permanently.

    Only objects that the format defines are removed: other files at its place, and datasets in
    folders of it, are left. The parts left by an interrupted copy or deletion are
    removed in the same way.

    Args:
        url: Where it is.
        confirm: The same URL again.
        storage_options: Credentials and endpoint, by fsspec's key names.
        token: For a server.

    Returns:
        The paths that were left, sorted; a folder without objects of the dataset is one item
        (``"photos/"``).

    Raises:
        InvalidInputError: ``confirm`` is another text; nothing was removed.

    Example:
        >>> import tensorlake as tl
        >>> tl.create("memory://doc-delete-dataset", {"x": "int64"}).close()
        >>> tl.delete("memory://doc-delete-dataset", confirm="memory://doc-delete-dataset")
        []
        >>> tl.exists("memory://doc-delete-dataset")
        False
    """
    url, confirm = place_text(url, what="url"), place_text(confirm, what="confirm")
    if confirm != url:
        raise InvalidInputError(
            f"delete({shown(url)}) removes every version for good; to"
            f" confirm give confirm={shown(url)},"
            f" not {shown(confirm)}"
        )
    options = _options(storage_options, "fsync", token)
    store = _open_store(url, options)
    marks = (*LAST_DELETED, head_path(MAIN))
    if not runtime.run(is_dataset(store)) and not any(
        runtime.run(store.head(mark)) is not None for mark in marks
    ):
        raise _not_found(store, options)
    if isinstance(store, LakeStore):
        return runtime.run(store.remove_dataset())
    Background.join_all(store.url)
    runtime.run(_delete(store))
    return runtime.run(foreign_objects(store))


def has_remains(
    url: str | PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> bool:
    """Return whether ``delete`` would find objects at a URL that is not a dataset."""
    store = _open_store(url, _options(storage_options, "fsync", None))
    return runtime.run(what_remains(store)) is not None


def left_by_deletion(
    url: str | PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> list[str]:
    """Return what ``delete`` would leave at a URL, as it returns it."""
    store = _open_store(url, _options(storage_options, "fsync", None))
    return [] if isinstance(store, LakeStore) else runtime.run(foreign_objects(store))


def reconnect(place: Place) -> Session:
    """Open the version of a pickled handle; credentials come from the environment."""
    store = _open_store(place.url, place.options)
    entry = runtime.run(BranchLog(store, place.branch).existing(place.number))
    if entry.digest != place.digest:
        version = f"{place.branch}@{place.number}"
        raise VersionNotFoundError(
            f"{place.url!r} has another {version} than the one that was pickled: the dataset was"
            " deleted and created again\nopen it again: tl.open(url)",
            version=version,
            expected=place.digest,
            actual=entry.digest,
        )
    runtime.run(refuse_forgotten(store, place.branch, place.number))
    resolved = Resolved(place.branch, entry, is_writable=place.is_writable, name=place.name)
    return _open(store, resolved, options=place.options, read_only=place.is_read_only)


def _declared(given: Any) -> Schema:
    if not isinstance(given, Mapping) or not given:
        raise SchemaError(f"a schema is {{'name': type, …}}, not empty; got {shown(given)}")
    return Schema.new(given)


def _check_same(session: Session, declared: Schema) -> None:
    wanted = {spec.name: spec.type for spec in declared.tensors}
    found = {spec.name: spec.type for spec in session.committed.schema.tensors}
    if found != wanted:
        raise SchemaError(
            f"{session.store.url!r} exists with another schema: {found!r}, not {wanted!r}\n"
            "open it with tl.open, or choose another URL",
            expected=wanted,
            actual=found,
        )


def _grace_text(grace: Duration, grace_s: int) -> str:
    """Return the form for a server, which reads five digits: above a day in minutes, rounded up."""
    if isinstance(grace, str):
        return grace
    return f"{grace_s}s" if grace_s <= DAY_S else f"{-(-grace_s // 60)}min"


def _grace_s(grace: Duration) -> int:
    seconds = int(duration_of(grace, what="grace").total_seconds())
    if seconds < LEAST_GRACE_S:
        raise InvalidInputError(
            f"grace={shown(grace)}: give a duration of at least '1min', such as '24h'",
            argument="grace",
            actual=grace,
        )
    return seconds


def _options(
    storage_options: Mapping[str, Any] | None, durability: Durability, token: str | None
) -> dict[str, Any]:
    if storage_options is not None and not (
        isinstance(storage_options, Mapping)
        and all(isinstance(name, str) for name in storage_options)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    ):
        raise InvalidInputError(
            f"storage_options= is a dict by fsspec's key names, got {shown(storage_options)}"
            '\nwrite storage_options={"endpoint_url": "https://…"}',
            argument="storage_options",
        )
    options = dict(storage_options or {})
    return {"storage_options": options, "durability": durability, "token": token}


def _open_store(url: str | PathLike[str], options: Mapping[str, Any]) -> Store:
    url = place_text(url, what="url")
    if is_lake_url(url):
        return LakeStore(url, options.get("token"))
    if options.get("token") is not None:
        raise InvalidInputError(
            f"token= is for servers (http://…), not for {url!r}\ngive storage_options="
        )
    if split_url(url)[0] not in ("file", "memory"):
        refuse_query(url)
    return open_store(
        url,
        storage_options=options.get("storage_options") or None,
        durability=options.get("durability", "fsync"),
    )


def _resolve(
    store: Store, version: str | dt.datetime | None, options: Mapping[str, Any]
) -> Resolved:
    """Read the descriptor beside the log: 4 requests in 2 round trips for a branch's head."""

    async def both() -> Resolved | None:
        import asyncio

        descriptor, resolved = await asyncio.gather(
            read_descriptor(store), resolve(store, version), return_exceptions=True
        )
        if descriptor is None:
            return None
        for outcome in (descriptor, resolved):
            if isinstance(outcome, BaseException):
                raise outcome
        assert isinstance(descriptor, Descriptor)
        assert isinstance(resolved, Resolved)
        if descriptor.mirror_of is None:
            return resolved
        followed = await resolve(store, version, follows_hint=True)
        return replace(followed, mirror_of=descriptor.mirror_of)

    resolved = runtime.run(both())
    if resolved is None:
        raise _not_found(store, options)
    return resolved


def _open(
    store: Store, resolved: Resolved, *, options: Mapping[str, Any], read_only: bool = False
) -> Session:
    # Pickles contain no secrets: a handle opened elsewhere uses its own credentials.
    public = {"durability": options.get("durability", "fsync")}
    kept = {k: v for k, v in (options.get("storage_options") or {}).items() if k in PUBLIC_OPTIONS}
    options = {**public, "storage_options": kept}
    return Session(store, resolved, read_only=read_only, options=options)


PUBLIC_OPTIONS = frozenset({"endpoint_url", "anon", "region"})


def _not_found(store: Store, options: Mapping[str, Any]) -> DatasetNotFoundError:
    remains = runtime.run(what_remains(store))
    if remains is not None:
        return DatasetNotFoundError(remains, dataset=store.url)
    parent, _, name = store.url.rstrip("/").rpartition("/")
    around: list[str] = []
    with suppress(TensorlakeError):  # a hint must not hide the error
        if isinstance(store, LakeStore):
            around = runtime.run(store.neighbours())
        elif below := _datasets_below(store):
            what = f"{store.url!r} is a lake, not a dataset: {_some_of(below)}"
            what += f"\nopen one of its datasets; all of them: tl.list({store.url!r})"
            return DatasetNotFoundError(what, dataset=store.url)
        elif parent and not parent.endswith("/"):  # the folder above, not the root of a scheme
            around = _datasets_below(_open_store(parent, options))
    near = difflib.get_close_matches(name, around, n=1)
    under = f"(beside it: {_some_of(around)}); " if around else ""
    hint = f"did you mean {f'{parent}/{near[0]}'!r}? " if near else ""
    return DatasetNotFoundError(
        f"no tensorlake dataset at {store.url!r}\n{under}{hint}{_how_to_make_one(store)}",
        dataset=store.url,
        near=near,
    )


def _datasets_below(store: Store) -> list[str]:
    found = runtime.run(_walk(store, depth=1))
    return [one.name for one in found if one.state == "whole" and one.name != "."]


def _some_of(names: list[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN_AROUND])) + (", …" if names[SHOWN_AROUND:] else "")


_IMPORTERS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"), "images"),
    **{ending: ending[1:] for ending in (".csv", ".jsonl", ".parquet")},
    ".tar": "webdataset",
    ".npy": "numpy",
    ".npz": "numpy",
}
"""The importer for files by their ending, for the hint when a folder of them is opened."""
_LOOKED_AT = 100
"""Names examined in a folder, and in its first folders, for the hint."""


def _how_to_make_one(store: Store) -> str:
    """Explain how to create a dataset: from the files present, if their kind is known."""
    endings = _endings_in(Path(store.url)) if isinstance(store, LocalStore) else []
    found = next(filter(None, map(_IMPORTERS.get, endings)), None)
    if found is None:
        return "to make a new one: tl.create(url, schema)"
    return f"to make one from these files: tl.ingest.{found}({store.url!r}, url)"


def _endings_in(place: Path) -> list[str]:
    """List endings of files here and one folder deeper, or of the file itself."""
    with suppress(OSError):  # a hint must not hide the error
        if place.is_file():
            return [place.suffix.lower()]
        here = sorted(islice(place.iterdir(), _LOOKED_AT)) if place.is_dir() else []
        inner = (islice(one.iterdir(), _LOOKED_AT) for one in here if one.is_dir())
        return [one.suffix.lower() for one in (*here, *chain.from_iterable(inner))]
    return []


LAST_DELETED = (COPYING, entry_path(MAIN, 0))
SHOWN_AROUND = 5
LIST_DEPTH = 4
"""Depth of folders searched for datasets: lakes are shallow, and each folder costs a request."""


async def _walk(store: Store, prefix: str = "", *, depth: int = LIST_DEPTH) -> list[Found]:
    """Find the datasets under a prefix; the folders of one are not searched."""
    name = prefix.rstrip("/") or "."
    if await is_dataset(store, prefix):
        return [Found(name, "whole")]
    if depth == 0:
        return []
    folders = await store.folders(prefix)
    if "packs" in folders and await store.head(f"{prefix}{COPYING}") is not None:
        return [Found(name, "copying")]
    if "branches" in folders and await store.head(f"{prefix}{entry_path(MAIN, 0)}") is not None:
        return [Found(name, "damaged")]
    factories = [partial(_walk, store, f"{prefix}{folder}/", depth=depth - 1) for folder in folders]
    return [one for found in await runtime.gather_bounded(factories, limit=16) for one in found]


async def _delete(store: Store) -> None:
    # Only what the format defines: a user's files may lie beside it, and other datasets below.
    # The descriptor first: an interrupted deletion leaves no dataset that seems intact, or that a
    # repair could restore. The objects that mark the remains are last: delete() continues there,
    # and create() is refused.
    for path in [m.path async for m in store.list(DESCRIPTORS) if is_own_path(m.path)]:
        await store.delete(path)
    await store.delete(DESCRIPTOR)
    own = [meta.path async for meta in store.list("") if is_own_path(meta.path)]
    paths = [path for path in own if path not in LAST_DELETED]
    await runtime.gather_bounded([lambda p=path: store.delete(p) for path in paths], limit=32)
    for path in LAST_DELETED:
        await store.delete(path)
