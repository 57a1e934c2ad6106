"""TFRecord files of ``tf.train.Example``: a record is a row, a feature a tensor.

Records are known by position: another run may find more of them at the end. Files are indexed by
the lengths of their records first, in pieces that are then read in parallel; a compressed file is
one piece. The lengths and the data have checksums, which are verified.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import has_magic
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import (
    COMPRESSED,
    SHAPE_FEATURE,
    Dataset,
    SkippedItem,
    common_codec,
    masked_crc,
)
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import Piece, find_files, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options, types_there
from tensorlake.ingest.engine.source import LoadedRows, Refused, given_settings, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.example_columns import FeatureParts, columns_of, parse_together
from tensorlake.ingest.records.examples import Values, parse_example
from tensorlake.ingest.records.index import written_types
from tensorlake.ingest.records.values import booleans, value_of
from tensorlake.ingest.tables.arrow import check_pieces, ingest_pieces
from tensorlake.ingest.tables.line_files import PIECE_NBYTES, decompressed
from tensorlake.storage import public_url
from tensorlake.types import (
    Array,
    Bytes,
    Image,
    SampleType,
    Scalar,
    Text,
    as_type,
    codec_of,
)
from tensorlake.types import Sequence as SequenceType

__all__ = ["tfrecord"]

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")


@shows_options
def tfrecord(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest TFRecord files of ``tf.train.Example``: each feature a tensor.

    Files written by ``to_tfrecord`` are restored to the same tensors. Otherwise types are inferred
    from the first and last records: one number per record is a scalar, the same count in all an
    array of that shape, different counts an array of any length. Bytes are images where all are,
    text where all are UTF-8, else Bytes. A feature that some records lack is a nullable scalar, or
    an empty list. ``schema`` restores shapes and classes: ``tl.Array("float32", (28, 28))``, also
    of bytes that are an array's memory.

    Args:
        src: A file, a folder (its files with ``.tfrecord`` in their names), a pattern such as
            ``"train-*-of-00128"``, or a list of files; also compressed (``.gz``).
        dst: Path or URL of the dataset.
        schema: Types by feature; they override the inferred ones.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is not TFRecord, a checksum does not match, or a record does not
            match the types; the message names the record.
        MissingExtraError: ``google-crc32c`` is not installed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-tfrecord", {"x": "int64", "name": tl.Text()})
        >>> ds.extend({"x": [1, 2], "name": ["one", "two"]})
        >>> ds.to_tfrecord("records")
        >>> tl.ingest.tfrecord("records", "memory://doc-tfrecord-in")["name"][:]
        ['one', 'two']
        >>> ds.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    is_strict = options.get("on_error", "raise") == "raise"
    records = _Records(files, is_strict=is_strict)
    paths = _paths(src, files)
    pieces = [piece for path in paths for piece in records.pieces(path)]
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    known = {**types_there(dst, options), **given}
    written = _written_types(paths, files)
    check_pieces("tfrecord", pieces, written, records.left_out)
    types = {**(written or records.types(pieces, known)), **given}
    return ingest_pieces(
        "tfrecord",
        pieces,
        types,
        partial(records.load, types=types),
        dst,
        options,
        files=files,
        settings=given_settings(schema),
        left_out=records.left_out,
        names_classes=False,
        src=src,
        cut=records.cut,
    )


def _paths(
    src: str | PathLike[str] | Sequence[str | PathLike[str]], files: SourceFiles
) -> list[str]:
    """List the files; those of a folder by the word in their names, which may end in anything."""
    found = find_files(src, "", files)
    text = source_path(src) if isinstance(src, str | PathLike) else ""
    if not text or has_magic(text) or found == [text]:
        return found
    named = [path for path in found if ".tfrecord" in PurePath(path).name]
    if not named:
        shown = public_url(text)
        message = f"no file of {shown!r} has '.tfrecord' in its name\npass a pattern or a list"
        raise InvalidInputError(message, src=shown)
    return named


def _written_types(paths: Sequence[str], files: SourceFiles) -> dict[str, SampleType]:
    """Return the types that `to_tfrecord` wrote beside all files; empty if there are none."""
    beside = {path.replace("\\", "/").rpartition("/")[0] for path in paths}
    return {} if len(beside) > 1 else written_types(beside.pop(), files)


@dataclass(slots=True)
class _Seen:
    """Kinds and counts of the values of a feature, and its bytes."""

    kinds: set[str] = field(default_factory=set[str])
    counts: set[int] = field(default_factory=set[int])
    values: list[bytes] = field(default_factory=list[bytes])

    def add(self, values: Values | None) -> None:
        self.counts.add(0 if values is None else len(values))
        if isinstance(values, list):
            self.kinds.add("bytes")
            self.values += values
        elif values is not None:
            self.kinds.add("float32" if values.dtype.kind == "f" else "int64")

    def add_together(self, feature: FeatureParts) -> None:
        """Add the values of a feature in many records."""
        self.counts.update(np.unique(feature.counts).tolist())
        self.kinds.add(feature.kind)
        if feature.kind == "bytes":
            self.values += feature.parts.each()


class _Records:
    """Reads the records of files.

    Args:
        files: Opens the files.
        is_strict: Whether a record that cannot be read is an error.

    Attributes:
        left_out: Ends of files that were left out.
    """

    def __init__(self, files: SourceFiles, *, is_strict: bool) -> None:
        self._files, self._is_strict = files, is_strict
        self._crc_of = masked_crc("ingest.tfrecord()")
        self._firsts: dict[tuple[str, int], int] = {}  # number of a piece's first record
        self.left_out: list[SkippedItem] = []

    def pieces(self, path: str) -> Iterator[Piece]:
        """Cut a file into runs of whole records; a compressed one is one run."""
        size = self._files.nbytes(path) or 0
        self._firsts[path, 0] = 0
        if Path(path).suffix in COMPRESSED:
            yield Piece(path, 0, -1, size)
            return
        start = number = 0
        for stop in self._stops(path, 0, size):
            number += 1
            if stop - start >= PIECE_NBYTES:
                yield Piece(path, start, stop, stop - start)
                start = stop
                self._firsts[path, start] = number
            size = stop
        if number and start < size:
            yield Piece(path, start, size, size - start)

    def cut(self, piece: Piece, nbytes: int, _: SourceFiles) -> tuple[Piece, Piece, int] | None:
        """Cut a run after some bytes; None if no record ends there."""
        middle = piece.start + nbytes
        if piece.stop < 0 or middle >= piece.stop:
            return None
        for number, stop in enumerate(self._stops(piece.path, piece.start, piece.stop), start=1):
            if stop == middle:
                first = self._firsts[piece.path, piece.start]
                self._firsts[piece.path, middle] = first + number
                rest = piece.stop - middle
                last = Piece(piece.path, middle, piece.stop, rest)
                return replace(piece, stop=middle, nbytes=nbytes), last, rest
            if stop > middle:
                break
        return None

    def types(
        self, pieces: Sequence[Piece], known: Mapping[str, SampleType]
    ) -> dict[str, SampleType]:
        """Infer the types that are not known, by the first and the last piece."""
        seen: dict[str, _Seen] = {}
        refused: list[Refused] = []
        count = 0
        for piece in dict.fromkeys((pieces[0], pieces[-1])):
            whole = self._read_together(piece)
            if whole is not None and (not count or seen.keys() == whole[1].keys()):
                for name, feature in whole[1].items():
                    seen.setdefault(name, _Seen()).add_together(feature)
                count += whole[0]
                continue
            for number, data in self._read(piece, refused):
                try:
                    features = parse_example(data)
                except ValueError as error:
                    if self._is_strict:
                        raise self._wrong(piece, number, str(error)) from error
                    self._refuse(refused, piece, number, str(error), data)
                    continue
                for name in features.keys() - seen.keys():
                    seen[name] = _Seen(counts={0} if count else set())
                for name, one in seen.items():
                    one.add(features.get(name))
                count += 1
        if not seen and refused and not known:
            raise no_rows("tfrecord", [item for item, _ in refused])
        if not seen:
            return dict(known)
        return {
            name: known[name] if name in known else _type(name, one)
            for name, one in sorted(seen.items())
        }

    def load(self, pieces: Sequence[Piece], *, types: Mapping[str, SampleType]) -> LoadedRows:
        """Read pieces as columns of values."""
        columns: dict[str, list[Any]] = {name: [] for name in types}
        row_of = _rows(types)
        refused: list[Refused] = []
        names: list[tuple[Piece, int]] = []
        for piece in pieces:
            whole = self._read_together(piece)
            made = None if whole is None else columns_of(whole[1], whole[0], types)
            if whole is not None and made is not None:
                if len(pieces) == 1:
                    return LoadedRows(made, (), partial(self._name, piece))
                names += [(piece, number) for number in range(whole[0])]
                for name, values in made.items():
                    columns[name].extend(values)
                continue
            for number, data in self._read(piece, refused):
                try:
                    row = row_of(parse_example(data))
                except (ValueError, RecursionError) as error:  # also of UTF-8 and JSON
                    self._refuse(refused, piece, number, str(error), data)
                    continue
                names.append((piece, number))
                for name, value in row.items():
                    columns[name].append(value)
        stacked = {name: _stacked(values) for name, values in columns.items()}
        return LoadedRows(stacked, refused, lambda row: self._name(*names[row]))

    def _read_together(self, piece: Piece) -> tuple[int, dict[str, FeatureParts]] | None:
        """Read a piece whose records are whole and of one form; None where `_read` has to.

        Returns:
            The number of records, and their features.
        """
        content = self._content(piece)
        starts: list[int] = []
        stops: list[int] = []
        at, end = 0, len(content)
        while at < end:
            length = self._length(content[at : at + _HEADER.size], end - at)
            if isinstance(length, str):
                return None
            start = at + _HEADER.size
            stop = start + length
            at = stop + _CRC.size
            if _CRC.unpack_from(content, stop)[0] != self._crc_of(content[start:stop]):
                return None
            starts.append(start)
            stops.append(stop)
        found = parse_together(content, np.array(starts, np.int64), np.array(stops, np.int64))
        return None if found is None else (len(starts), found)

    def _content(self, piece: Piece) -> bytes:
        if piece.stop < 0:
            return decompressed(piece.path, self._files)
        with self._files.open(piece.path) as file:
            file.seek(piece.start)
            return file.read(piece.stop - piece.start)

    def _read(self, piece: Piece, refused: list[Refused]) -> Iterator[tuple[int, bytes]]:
        """Yield the records of a piece, each with its number in the piece."""
        content = self._content(piece)
        at = number = 0
        while at < len(content):
            length = self._length(content[at : at + _HEADER.size], len(content) - at)
            if isinstance(length, str):
                self._refuse(refused, piece, number, f"{length}; all after it is left out", b"")
                return
            start = at + _HEADER.size
            data = content[start : start + length]
            at = start + length + _CRC.size
            if _CRC.unpack(content[at - _CRC.size : at])[0] == self._crc_of(data):
                yield number, data
            else:
                self._refuse(refused, piece, number, "the checksum of its data differs", data)
            number += 1

    def _stops(self, path: str, start: int, stop: int) -> Iterator[int]:
        """Yield where each record ends, from a byte where one begins."""
        number = self._firsts.get((path, start), 0)
        at = start
        with self._files.open(path) as file:
            while at < stop:
                file.seek(at)
                length = self._length(file.read(_HEADER.size), stop - at)
                if isinstance(length, str):
                    error = self._wrong(Piece(path, 0, stop, stop), number, length)
                    if self._is_strict:
                        raise error
                    name = self._name(Piece(path, 0, stop, stop), number)
                    self.left_out.append(SkippedItem(name, f"{length}; all after it is left out"))
                    return
                at += _HEADER.size + length + _CRC.size
                number += 1
                yield at

    def _length(self, header: bytes, rest: int) -> int | str:
        """Return the length of a record's data, or why there is none."""
        if len(header) < _HEADER.size:
            return "the file is cut off"
        length, crc = _HEADER.unpack(header)
        if crc != self._crc_of(header[:8]):
            return "it is damaged or not TFRecord: the checksum of its length differs"
        return length if _HEADER.size + length + _CRC.size <= rest else "the file is cut off"

    def _refuse(
        self, refused: list[Refused], piece: Piece, number: int, why: str, data: bytes
    ) -> None:
        if self._is_strict:
            raise self._wrong(piece, number, why)
        refused.append((SkippedItem(self._name(piece, number), why), {"record": data}))

    def _wrong(self, piece: Piece, number: int, why: str) -> InvalidInputError:
        name = self._name(piece, number)
        return InvalidInputError(f"{name}: {why}", src=public_url(piece.path), item=name)

    def _name(self, piece: Piece, number: int) -> str:
        first = self._firsts.get((piece.path, piece.start), 0)
        return f"record {first + number} of {PurePath(piece.path).name}"


def _type(name: str, seen: _Seen) -> SampleType:
    advice = f"\nsay what it is: schema={{{name!r}: …}}"
    if len(seen.kinds) != 1:
        kinds = " and of ".join(sorted(seen.kinds))
        why = f"has values of {kinds}" if kinds else "is empty in the first and last records"
        raise InvalidInputError(f"the feature {name!r} {why}{advice}", tensor=name)
    (kind,) = seen.kinds
    is_scalar, is_nullable = seen.counts <= {0, 1}, 0 in seen.counts
    if kind != "bytes":
        if is_scalar:
            return Scalar(kind, nullable=is_nullable)
        return Array(kind, (next(iter(seen.counts)) if len(seen.counts) == 1 else None,))
    item = _bytes_type(seen.values)
    return replace(item, nullable=is_nullable) if is_scalar else SequenceType(item)


def _bytes_type(values: Sequence[bytes]) -> Any:
    codec = common_codec({codec_of(one) for one in values})
    if codec is not None:
        return Image(codec)
    try:
        is_text = all("\0" not in one.decode() for one in values)
    except UnicodeDecodeError:
        is_text = False
    return Text() if is_text else Bytes()


Features = Mapping[str, Values | None]


def _rows(types: Mapping[str, SampleType]) -> Callable[[Features], dict[str, Any]]:
    """Return what makes the values of a row of its features; ValueError where they are others."""
    known = types.keys() | {f"{name}{SHAPE_FEATURE}" for name in types}
    usual = {name: _usual(kind) for name, kind in types.items()}

    def row_of(features: Features) -> dict[str, Any]:
        if not features.keys() <= known:
            raise ValueError(
                f"it has the feature {min(features.keys() - known)!r}, which the first and last"
                f" records lack\nsay what it is: schema={{{min(features.keys() - known)!r}: …}}"
            )
        row: dict[str, Any] = {}
        for name, one in usual.items():
            values = features.get(name)
            if one is not None and values is not None and len(values) == one[0]:
                row[name] = one[1](values)
            else:
                shape = features.get(f"{name}{SHAPE_FEATURE}")
                row[name] = _value(name, types[name], values, shape)
        return row

    return row_of


def _usual(kind: SampleType) -> tuple[int, Callable[[Any], Any]] | None:
    """Return how many values a feature of a type usually has, and what makes a sample of them."""
    if isinstance(kind, SequenceType) or kind.dtype == np.bool_:
        return None
    if kind.is_media or not kind.shape:
        return 1, lambda values: _one(kind, values[0])
    return None


def _stacked(values: list[Any]) -> Any:
    """Return arrays of one shape and dtype as one."""
    kinds = {(one.shape, one.dtype) if isinstance(one, np.ndarray) else None for one in values}
    return np.stack(values) if len(kinds) == 1 and None not in kinds else values


def _value(name: str, kind: SampleType, values: Values | None, shape: Values | None) -> Any:
    """Return a sample of a feature; ValueError where the type does not accept it."""
    own = () if kind.is_media else kind.shape or ()
    is_list = isinstance(kind, SequenceType) or None in own or 0 in own
    if values is None or (not len(values) and not is_list):
        if kind.nullable:
            return None
        if not is_list:
            raise ValueError(f"the feature {name!r} is missing or empty")
        values = []
    if kind.dtype == np.bool_ and not isinstance(values, list):
        values = booleans(name, values)
    if isinstance(kind, SequenceType):
        return [_one(kind.item, one) for one in values]
    if not own:
        if len(values) != 1:
            raise ValueError(
                f"the feature {name!r} has {len(values)} values, and {kind.describe()} one"
            )
        return _one(kind, values[0])
    if isinstance(values, list) and values and kind.dtype is not None:
        if len(values) != 1:
            raise ValueError(f"the feature {name!r} has {len(values)} strings, not an array")
        values = np.frombuffer(values[0], kind.dtype.newbyteorder("<"))
    if shape is None:
        lengths = [-1 if one is None else one for one in own]
        if lengths.count(-1) > 1 and not len(values):
            lengths = [max(0, one) for one in lengths]
    else:
        lengths = [int(one) for one in shape]
    try:
        return np.asarray(values).reshape(lengths)
    except ValueError as error:
        raise ValueError(f"the {len(values)} values of {name!r} are not {own}") from error


def _one(kind: SampleType, value: Any) -> Any:
    return value_of(kind, value) if isinstance(value, bytes) else value
