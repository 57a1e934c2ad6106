"""The record of a run: immutable objects beside the dataset, which no branch refers to.

    runs/<name>/run.json                      once: name, config, machine, versions of software
    runs/<name>/<attempt>/segment-<n>.json    a pass: its first step, and the loader's state there
    runs/<name>/<attempt>/events-<n>.arrow    each step: how long it waited, and the scalars logged
    runs/<name>/<attempt>/rows-<n>.arrow      values of rows, by row id
    runs/<name>/<attempt>/events-<n>-<m>.parquet    parts n … m of an hour as one; rows likewise
    runs/<name>/skip-<digest>.arrow           rows that later steps leave out, by row id
    runs/<name>/redacted-<digest>.parquet     what is left of a selection with forgotten rows

An attempt is one process that recorded, so that a lost rank and its successor never write the same
object. Its name begins with a number, one more than of any attempt that it found: clocks are not
compared. All objects are put if absent, each whole or not at all: a crash loses what was logged
since the last. Parts that are in a larger one do not count any more, and are deleted after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib import metadata
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import CorruptionError, InvalidInputError, StorageError, shown
from tensorlake.format import RUNS, decode_name, encode_name
from tensorlake.storage import ObjectMeta, Store, runtime
from tensorlake.versions import put_surely

__all__ = ["LISTINGS_MAX", "SERVED", "Kind", "Part", "Record", "Segment", "list_runs"]

Int64Array = npt.NDArray[np.int64]
SERVED = ("http://", "https://")
"""Beginnings of the URLs of servers, which serve no records of runs, only their names."""
FORMAT = "tensorlake-run"
VERSION = 1
CONFIG_NBYTES_MAX = 256 * 1024
READS_AT_ONCE = 32
LISTINGS_MAX = 5
SECRET = re.compile(r"secret|token|password|passwd|credential|api_?key|access_?key", re.IGNORECASE)
"""Keys of a config whose values are not recorded."""
URL_SECRET = re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE)
QUERY_SECRET = re.compile(
    r"([?&;][^=&\s]*(?:token|secret|password|passwd|signature|credential|key)[^=&\s]*=)[^&\s]*",
    re.IGNORECASE,
)
"""Secrets in URLs: of a user, and of a query."""
SOFTWARE = (
    *("tensorlake-dl", "numpy", "torch", "jax", "tensorflow"),
    *("pillow", "simplejpeg", "opencv-python", "opencv-python-headless"),
)
_OBJECT = re.compile(
    r"(?P<attempt>[0-9]{6}-[0-9a-f]{16})/(?P<kind>segment|events|rows)-(?P<number>[0-9]{6})"
    r"(?:-(?P<last>[0-9]{6}))?\.(?:json|arrow|parquet)"
)

Kind = Literal["events", "rows"]


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """One object of a record, besides ``run.json``: of one part, or of parts ``number … last``.

    ``modified`` is by the store's clock.
    """

    attempt: str
    number: int
    kind: str
    path: str
    last: int
    nbytes: int = field(default=0, compare=False)
    modified: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """One pass over the rest of an epoch, or a part of it.

    Attributes:
        attempt: The attempt that recorded it.
        number: Which of the attempt's segments it is.
        step: The step of its first batch.
        rank: The rank of the process.
        batches: Batches of the pass, if it was not left before; None: it never ends.
        world_size: Number of ranks.
        global_batch_size: Rows of a batch of all ranks.
        framework: The framework of its batches.
        state: The loader's state before the first batch.
        arguments: The loader's arguments, see ``arguments.py``.
        software: Version by name of what makes batches.
        is_staged: Whether it read staged changes, which are in no version.
        is_redacted: Whether its query named values of rows that were forgotten.
    """

    attempt: str
    number: int
    step: int
    rank: int
    batches: int | None
    world_size: int
    global_batch_size: int
    framework: str
    state: Mapping[str, Any]
    arguments: Mapping[str, Any]
    software: Mapping[str, str]
    is_staged: bool = False
    is_redacted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"format": FORMAT, "version": VERSION} | {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("attempt", "number")
        }


class Record:
    """One run's objects.

    Attributes:
        store: The store that has them, usually a dataset's.
        name: Name of the run.
        content: The content of ``run.json``.
    """

    def __init__(self, store: Store, name: str, content: Mapping[str, Any]) -> None:
        self.store = store
        self.name = name
        self.content = content

    @classmethod
    def read(cls, store: Store, name: str) -> Record | None:
        """Read the record of a run; None if there is none.

        Raises:
            CorruptionError: ``run.json`` is damaged.
        """
        path = f"{_folder(name)}run.json"
        data = runtime.run(store.get(path))
        return None if data is None else cls(store, name, _parsed(data, path))

    @classmethod
    def create(
        cls, store: Store, name: str, *, url: str, version: str, config: Mapping[str, Any]
    ) -> Record:
        """Create the record of a run, or continue one of the same config.

        Raises:
            InvalidInputError: The config cannot be JSON, or the run was recorded with another.
            StorageError: The store takes no records.
        """
        config = _checked_config(config)
        if store.url.startswith(SERVED):
            raise InvalidInputError(
                f"{store.url!r} is behind a server, which keeps no records of runs\n"
                f"name a folder or bucket for them: tl.run(URL, {name!r}), then run.loader(ds, …)"
            )
        found = cls.read(store, name)
        if found is None:
            content = {
                "format": FORMAT,
                "version": VERSION,
                "name": name,
                "dataset": url,
                "dataset_version": version,
                "config": config,
                "machine": _machine(),
                "software": software(),
            }
            data = json.dumps(content, indent=1).encode()
            if runtime.run(put_surely(store, f"{_folder(name)}run.json", data)):
                return cls(store, name, content)
            found = cls.read(store, name)
            if found is None:
                raise StorageError(f"the record of run {name!r} was removed while it was opened")
        if config and found.content.get("config") != config:
            was = cast("Mapping[str, Any]", found.content.get("config"))
            keys = [repr(key) for key in {**was, **config} if was.get(key) != config.get(key)]
            raise InvalidInputError(
                f"run {name!r} was recorded with another config: {', '.join(keys)} differ"
                "\ngive the run another name, or continue it with config=None",
                expected=was,
                actual=config,
            )
        return found

    @property
    def config(self) -> Mapping[str, Any]:
        """The config that the run was created with."""
        return cast("Mapping[str, Any]", self.content.get("config", {}))

    def new_attempt(self) -> str:
        """Return a name for a new attempt, after all that there are."""
        newest = max((int(part.attempt[:6]) for part in self.parts()), default=-1)
        return f"{newest + 1:06}-{secrets.token_hex(8)}"

    def parts(self, kind: str | None = None) -> list[Part]:
        """List the objects, in the order in which they were recorded."""
        found = [_part(self.name, meta) for meta in _listed(self.store, _folder(self.name))]
        parts = [part for part in found if part and kind in (None, part.kind)]
        joined = [part for part in parts if part.last > part.number]
        return sorted(
            part
            for part in parts
            if part in joined or not any(_has(whole, part) for whole in joined)
        )

    def read_all(self, kind: Kind) -> list[tuple[Part, bytes]]:
        """Read the parts of a kind, also while the recorder puts larger ones in their places."""
        found: list[tuple[Part, bytes]] = []
        for _ in range(LISTINGS_MAX):
            parts = self.parts(kind)
            found = list(self.read_parts(parts))
            if len(found) == len(parts):
                break
        return found

    def segments(self) -> list[Segment]:
        """Read all segments, in the order of their attempts.

        Raises:
            CorruptionError: One is damaged.
        """
        parts = self.parts("segment")
        return [_segment(part, data) for part, data in self.read_parts(parts)]

    def read_parts(self, parts: Sequence[Part]) -> Iterator[tuple[Part, bytes]]:
        """Read objects, several at once; those that were removed meanwhile are left out."""
        for start in range(0, len(parts), READS_AT_ONCE):
            some = parts[start : start + READS_AT_ONCE]
            reads = [partial(self.store.get, part.path) for part in some]
            found = runtime.run(runtime.gather_bounded(reads, limit=READS_AT_ONCE))
            yield from ((part, data) for part, data in zip(some, found, strict=True) if data)

    def path(self, attempt: str, kind: str, number: int, last: int | None = None) -> str:
        """Return the path of an object: of a part, or of all from it to the last."""
        suffix = "json" if kind == "segment" else "arrow" if last is None else "parquet"
        upto = "" if last is None else f"-{last:06}"
        return f"{_folder(self.name)}{attempt}/{kind}-{number:06}{upto}.{suffix}"

    def put_skipped(self, data: bytes) -> str:
        """Store a list of rows that are left out, under its digest; return its path."""
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        path = f"{_folder(self.name)}skip-{digest}.arrow"
        runtime.run(put_surely(self.store, path, data))
        return path

    def put_redacted(self, selection: str, version: str, rows: Int64Array) -> None:
        """Store the rows of a selection by the numbers of a version without some; −1 for these."""
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table({"row": pa.array(rows)})
        table = table.replace_schema_metadata({"version": version, "format": FORMAT})
        sink = pa.BufferOutputStream()
        encoding = {"row": "DELTA_BINARY_PACKED"}
        parquet.write_table(
            table, sink, compression="zstd", use_dictionary=False, column_encoding=encoding
        )
        path = f"{_folder(self.name)}redacted-{selection}.parquet"
        runtime.run(self.store.put(path, sink.getvalue().to_pybytes()))

    def redacted(self, selection: str) -> tuple[str, Int64Array] | None:
        """Return the version and the rows that are left of a selection; None: it is whole.

        Raises:
            CorruptionError: The object is damaged.
        """
        import pyarrow as pa
        from pyarrow import parquet

        path = f"{_folder(self.name)}redacted-{selection}.parquet"
        data = runtime.run(self.store.get(path))
        if data is None:
            return None
        try:
            table = parquet.read_table(pa.BufferReader(data))
            version = table.schema.metadata[b"version"].decode()
            return version, table.column("row").to_numpy().astype(np.int64)
        except (pa.ArrowInvalid, OSError, KeyError, TypeError) as error:
            raise _damaged(path, str(error)) from error

    def skipped(self) -> list[str]:
        """List the paths of lists of rows that are left out."""
        folder = f"{_folder(self.name)}skip-"
        return sorted(meta.path for meta in _listed(self.store, folder))

    def delete(self) -> None:
        """Remove every object, ``run.json`` last."""
        folder = _folder(self.name)
        paths = sorted(meta.path for meta in _listed(self.store, folder))
        own = f"{folder}run.json"
        deletes = [partial(self.store.delete, path) for path in paths if path != own]
        runtime.run(runtime.gather_bounded(deletes, limit=READS_AT_ONCE))
        runtime.run(self.store.delete(own))


def list_runs(store: Store) -> list[str]:
    """List the names of the runs that a store has records of, sorted."""
    folders = runtime.run(store.folders(RUNS))
    return sorted(decode_name(folder, where=f"{RUNS}{folder}/") for folder in folders)


def software() -> dict[str, str]:
    """Return versions of the software that makes batches."""
    found = {"python": platform.python_version()}
    for name in SOFTWARE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",  # noqa: PTH119 - may be "-c"
    }


def _folder(name: str) -> str:
    return f"{RUNS}{encode_name(name)}/"


def _listed(store: Store, prefix: str) -> list[ObjectMeta]:
    async def collected() -> list[ObjectMeta]:
        await runtime.to_loop()
        return [meta async for meta in store.list(prefix)]

    return runtime.run(collected())


def _part(name: str, meta: ObjectMeta) -> Part | None:
    found = _OBJECT.fullmatch(meta.path.removeprefix(_folder(name)))
    if found is None:
        return None
    number = int(found["number"])
    last = number if found["last"] is None else int(found["last"])
    part = found["attempt"], number, found["kind"], meta.path, last
    return Part(*part, nbytes=meta.nbytes, modified=meta.modified)


def _has(whole: Part, part: Part) -> bool:
    """Whether a part is one of those of a larger one."""
    is_alike = (whole.attempt, whole.kind) == (part.attempt, part.kind)
    return is_alike and whole.number <= part.number and part.last <= whole.last


def _segment(part: Part, data: bytes) -> Segment:
    content = _parsed(data, part.path)
    for added in ("is_staged", "is_redacted"):
        content.setdefault(added, False)  # earlier records do not have it
    try:
        named = {
            name: content[name]
            for name in Segment.__dataclass_fields__
            if name not in ("attempt", "number")
        }
    except KeyError as error:
        raise _damaged(part.path, f"it lacks {error}") from error
    return Segment(part.attempt, part.number, **named)


def _parsed(data: bytes, path: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _damaged(path, "it is not part of the record of a run")
    if content.get("version") != VERSION:
        raise _damaged(path, f"its version is {content.get('version')!r}, not {VERSION}")
    return cast("dict[str, Any]", content)


def _damaged(path: str, why: str) -> CorruptionError:
    return CorruptionError(
        f"{path!r} is damaged: {why}\nremove the run: ds.runs.delete(name)", object=path
    )


def _checked_config(config: Any) -> dict[str, Any]:
    """Return a config as JSON gives it back, without secrets."""
    if not isinstance(config, Mapping):
        raise InvalidInputError(
            f"config is a dict of JSON values, got a {type(config).__name__}"
            "\ngive vars(config), or dataclasses.asdict(config)"
        )
    named = cast("Mapping[Any, Any]", config)
    recorded = {key: _recordable(key, value) for key, value in named.items()}
    try:
        text = json.dumps(recorded, allow_nan=False)
    except (TypeError, ValueError) as error:  # a key that is no string
        raise InvalidInputError(
            f"config cannot be recorded: {error}\ngive names as keys"
        ) from error
    if len(text) > CONFIG_NBYTES_MAX:
        raise InvalidInputError(
            f"config takes {len(text):,} bytes of JSON, more than {CONFIG_NBYTES_MAX:,}"
        )
    return cast("dict[str, Any]", json.loads(text))


def _recordable(key: Any, value: Any) -> Any:
    """Return the value of a key as JSON has it, without secrets.

    Raises:
        InvalidInputError: JSON has no such value.
    """
    if isinstance(key, str) and SECRET.search(key):
        return "***"
    found = _redacted(value)
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"config[{shown(key)}] cannot be recorded: {error}"
            "\ngive names, numbers that are finite, lists and dicts of these",
            argument="config",
        ) from error
    return found


def _redacted(value: Any) -> Any:
    """Return a value without secrets: of keys that name one, and in URLs."""
    if isinstance(value, Mapping):
        named = cast("Mapping[Any, Any]", value)
        return {
            key: "***" if isinstance(key, str) and SECRET.search(key) else _redacted(one)
            for key, one in named.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, np.generic):
        return _redacted(value.item())
    if isinstance(value, os.PathLike):
        return _redacted(os.fsdecode(cast("os.PathLike[str]", value)))
    if isinstance(value, str):
        return QUERY_SECRET.sub(r"\1***", URL_SECRET.sub(r"\1***@", value))
    return value
