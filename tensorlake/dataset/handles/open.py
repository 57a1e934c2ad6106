"""Create and open datasets by URL: a handle around the session of ``connect``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.core.connect import Durability, connect, connect_new
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.maintenance.fork import make_fork
from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import Duration
from tensorlake.versions import CommitRequest

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.format import Constraint, Schema

__all__ = ["create", "fork", "open_dataset"]


def create(
    url: str | PathLike[str],
    schema: Mapping[str, Any] | None = None,
    *,
    exist_ok: bool = False,
    like: Dataset | None = None,
    unique: str | Sequence[str] = (),
    grace: Duration = "24h",
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
    durability: Durability = "fsync",
) -> Dataset:
    """Create a dataset and open its branch ``main``.

    Args:
        url: Local path, ``s3://``, ``gs://``, ``az://``, ``memory://``, or ``http(s)://`` of a
            dataset behind a tensorlake server.
        schema: Types by tensor name. A dtype name is short for Scalar, ``"str"`` for Text.
        exist_ok: Open an existing dataset, provided that it has this schema.
        like: Take the schema of another dataset.
        unique: A tensor, or several, of which no two rows may have the same values: a commit that
            would break this raises ``ConstraintError``. Rows with NULL are not compared.
        grace: How long a transaction may stay unpublished: ``"30min"``, ``"24h"``, ``"7d"``, a
            timedelta, or seconds.
        storage_options: Credentials and endpoint, by fsspec's key names.
        token: For a server; the environment's ``TENSORLAKE_TOKEN`` when it is left out.
        durability: ``"none"`` leaves out the fsyncs of a local folder.

    Raises:
        InvalidInputError: There is already a dataset at this URL, or there are other files, or it
            is inside a dataset; nothing was written.
        SchemaError: A name or type is invalid.

    Example:
        >>> import tensorlake as tl
        >>> tl.create("memory://doc-create", {"x": "float32", "label": tl.ClassLabel(["a", "b"])})
        Dataset 'memory://doc-create' main@0 · 0 rows
          x      Scalar(float32)        () float32
          label  ClassLabel(2: a, b)    () int64
    """
    if (schema is None) == (like is None):
        raise SchemaError("give a schema {'name': type, …}, or like=another_dataset; one of both")
    if like is not None and not hasattr(like, "schema"):
        raise SchemaError(
            f"like= is an open dataset, got {shown(like)}\nwrite like=tl.open(url)", actual=like
        )
    key_of: Callable[[Schema], tuple[str, Constraint]] | None = None
    if unique:
        from tensorlake.dataset.maintenance.constraints import unique_key

        key_of = partial(unique_key, names=unique)
    session = connect_new(
        url,
        schema if schema is not None or like is None else like.schema,
        exist_ok=exist_ok,
        grace=grace,
        storage_options=storage_options,
        token=token,
        durability=durability,
        check=key_of,
    )
    dataset = Dataset(session)
    if key_of is not None:
        _add_key(session, *key_of(session.committed.schema))
    return dataset


def _add_key(session: Session, name: str, key: Constraint) -> None:
    if session.committed.schema.constraints.get(name) != key:
        with session.lock:
            session.staging().change_constraints(name, key)
        session.commit(CommitRequest(name))


def open_dataset(
    url: str | PathLike[str],
    version: str | dt.datetime | None = None,
    *,
    read_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    token: str | None = None,
    durability: Durability = "fsync",
) -> Dataset:
    """Open a dataset: its branch ``main``, or a version.

    Args:
        url: Where it is.
        version: A branch (writable), a commit ``main@12``, a tag, or an aware datetime.
        read_only: Refuse to stage changes.
        storage_options: Credentials and endpoint, by fsspec's key names.
        token: For a server; the environment's ``TENSORLAKE_TOKEN`` when it is left out.
        durability: ``"none"`` leaves out the fsyncs of a local folder.

    Raises:
        DatasetNotFoundError: There is none; the message names datasets near it.
        VersionNotFoundError: It has no such version.

    Example:
        >>> import tensorlake as tl
        >>> tl.create("memory://doc-open", {"x": "int64"}).close()
        >>> with tl.open("memory://doc-open") as ds:
        ...     ds.append({"x": 1})
        ...     print(ds.commit("one row").version)
        main@1
        >>> tl.open("memory://doc-open", version="main@0").count()
        0
    """
    session = connect(
        url,
        version,
        read_only=read_only,
        storage_options=storage_options,
        token=token,
        durability=durability,
    )
    return Dataset(session)


open_dataset.__module__, open_dataset.__name__ = "tensorlake", "open"  # as users type it
open_dataset.__qualname__ = "open"


def fork(
    base: str | PathLike[str],
    url: str | PathLike[str],
    version: str | dt.datetime | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Make a dataset that begins as a version of another one, and reads its data there.

    Only a log entry is written, whatever the size of the base. Commits are the fork's own; the base
    is never changed, but for a tag that keeps the version, where it can be written. Access to the
    base is that of links: credentials of the environment, or of `set_link_credentials`.

    Args:
        base: The dataset to fork: a path or URL, also of a static web server.
        url: Where the fork is made.
        version: The base's version; None: the newest of its branch ``main``.
        storage_options: Credentials and endpoint of the fork, by fsspec's key names.

    Raises:
        DatasetNotFoundError: There is no base.
        InvalidInputError: There is a dataset at the URL, or there are other files, or it is
            inside a dataset; or the base's URL has credentials.
        UnsupportedStoreError: The URL is that of a server.

    Example:
        >>> import tensorlake as tl
        >>> base = tl.create("memory://doc-fork-base", {"x": "int64"})
        >>> base.extend({"x": [1, 2, 3]})
        >>> _ = base.commit("three")
        >>> ds = tl.fork("memory://doc-fork-base", "memory://doc-fork")
        >>> ds["x"][1] = 20
        >>> _ = ds.commit("corrected")
        >>> ds["x"][:], base["x"][:], ds.bases[0].version
        (array([ 1, 20,  3]), array([1, 2, 3]), 'main@1')
    """
    make_fork(base, url, version, storage_options=storage_options)
    return Dataset(connect(url, storage_options=storage_options))
