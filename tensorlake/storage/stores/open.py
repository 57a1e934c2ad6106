"""Choose the store for a URL.

path, file://              LocalStore       the only one with memory mapping
memory://name              MemoryStore      shared by name within this process
s3:// gs:// az://          ObjectStore      through obstore
http:// https://           ObjectStore      read only
hf://                      FsspecStore      a repository of a Hugging Face hub, read only
fsspec+<protocol>://       FsspecStore      any other fsspec protocol; writable where it can create
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tensorlake.errors import InvalidInputError
from tensorlake.storage.api.options import OBJECT_SCHEMES, check_options, refuse_unknown
from tensorlake.storage.api.store import Store
from tensorlake.storage.api.urls import place_text, public_url, split_url
from tensorlake.storage.stores.fsspec import PREFIX, FsspecStore
from tensorlake.storage.stores.local import Durability, LocalStore
from tensorlake.storage.stores.memory import MemoryStore
from tensorlake.storage.stores.object_store import ObjectStore

KNOWN_SCHEMES: Final = (
    "a path",
    "file://",
    "memory://",
    *(f"{scheme}://" for scheme in OBJECT_SCHEMES),
    "hf://",
    f"{PREFIX}<protocol>://",
)


def open_store(
    url: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = "fsync",
) -> Store:
    """Open the store at a path or URL; nothing is read, written or connected to yet.

    Args:
        url: A local path, or file, memory, s3, gs, az, http(s) and its rest.
        storage_options: Connection options, by fsspec's names: key, secret, token, endpoint_url,
            region, anon, profile; obstore's own names are accepted as well. With fsspec+… they are
            the file system's own. A folder and memory need none, and reject names that no store
            accepts.
        durability: "none" lets local writes return before they are on disk.

    >>> open_store("memory://pets").url
    'memory://pets'
    """
    scheme, rest = split_url(place_text(url, what="url"))
    check_options(storage_options)
    if scheme == "file":
        if not rest:
            raise InvalidInputError("the dataset's path is empty;\ngive a folder", url=rest)
        refuse_unknown(rest, storage_options)
        return LocalStore(rest, durability=durability)
    if scheme == "memory":
        name, _, prefix = rest.strip("/").partition("/")
        if not name:
            raise InvalidInputError(
                "'memory://' names no store;\ngive it a name, as in 'memory://scratch'",
                url="memory://",
            )
        refuse_unknown(f"memory://{rest}", storage_options)
        return MemoryStore(name, prefix=prefix)
    if scheme in OBJECT_SCHEMES:
        _refuse_password(scheme, rest)
        return ObjectStore(f"{scheme}://{rest}", storage_options)
    if scheme == "hf" or scheme.startswith(PREFIX):
        return FsspecStore(f"{scheme}://{rest}", storage_options)
    shown = public_url(os.fspath(url))
    raise InvalidInputError(
        f"no store for {shown!r}: its scheme {scheme!r} is not known;\n"
        f"use one of {', '.join(KNOWN_SCHEMES)}",
        url=shown,
        scheme=scheme,
    )


def _refuse_password(scheme: str, rest: str) -> None:
    """Reject a bucket with a password: it would be taken for its name, and shown in errors."""
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user and scheme not in ("http", "https"):
        shown = public_url(f"{scheme}://{rest}")
        raise InvalidInputError(
            f"the URL of {shown!r} has a user and a password, which bucket URLs do not support;\n"
            "give them by storage_options={'key': …, 'secret': …}, the environment or a profile",
            url=shown,
            scheme=scheme,
        )
