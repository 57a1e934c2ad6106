"""Read a tensorlake dataset without tensorlake: the format's reference, in 200 lines of code.

    python read_without_tensorlake.py FOLDER [BRANCH[@NUMBER]]

A second reader, written from docs/reference/format.md alone: NumPy for arrays, numcodecs for
Zstandard and Blosc, xxhash for checksums. It verifies every digest and checksum that it reads, and
returns samples as stored: numbers and arrays as NumPy arrays, images, text and JSON as bytes, NULL
as None. Unsupported features (dtypes that NumPy lacks, reserved kinds of chunks) raise an error
that names them. It is short rather than fast; it shows that your data does not depend on this
library.
"""

import base64
import hashlib
import json
import re
import struct
import sys
import unicodedata
from collections.abc import Collection, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import Blosc, Shuffle, Zstd
from xxhash import xxh3_64_intdigest

FEATURES = {"code-maps", "dropped-classes"}
RANGE, HOLES, PACKED = 1, 2, 3  # kinds of row segments; 0 where a tail says none: RANGE
UNIFORM, RAGGED, ENCODED, FILL, HOLE = 1, 2, 3, 5, 6  # kinds of extents; the first three of chunks
DTYPES = dict(enumerate(["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"], start=1))
CODECS = {"blosc": Blosc, "numcodecs.shuffle": Shuffle, "zstd": Zstd}
CHILD = ("height", "pack", "offset", "nbytes", "checksum")
SEGMENT = ("kind", "base", "rows", "span", "bits", "payload_nbytes")
EXTENT = ("rows", "skip", "kind", "read_as", "pack", "offset", "nbytes", "checksum")
Columns = dict[str, Any]


def check(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(f"damaged, or not in the specified format: {what}")


def know(what: str, value: Any, known: Collection[Any]) -> None:
    if value not in known:
        raise NotImplementedError(f"this reader does not know {what} {value!r}")


class Dataset:
    """One version of a dataset in a folder: ``names``, ``num_rows``, ``read(name)``."""

    def __init__(self, folder: str, branch: str = "main", number: int | None = None) -> None:
        self.folder, self.log = Path(folder), Path(folder, "branches", encoded(branch))
        descriptor = self.sealed(self.folder / "tensorlake.json")
        know("the format", (descriptor["format"], descriptor["version"]), [("tensorlake", 1)])
        if number is None and "mirror_of" in descriptor:
            number = self.sealed(self.log / "HEAD")["seq"]
        if number is None:  # a log has no gaps: its head is before the first that is missing
            number = next(n for n in count() if not self.path_of(n + 1).exists())
        entry = self.entry(number)
        while entry["kind"] in ("fence", "end") and entry["of"] is not None:
            entry = self.entry(entry["of"])
        check(entry["kind"] == "commit", f"entry {entry['seq']} shows no version")
        for feature in entry["features"]["read"]:
            know("the feature", feature, FEATURES)
        self.log_entry = entry
        self.tensors = {one["name"]: one for one in self.member("schema")["tensors"]}
        self.names, self.num_rows = list(self.tensors), entry["rows"]["rows"]

    def path_of(self, number: int) -> Path:
        return self.log / f"{number:010}.json"

    def entry(self, number: int) -> Any:
        found = self.sealed(self.path_of(number))
        check(found["seq"] == number, f"entry {number}")
        return found

    def sealed(self, path: Path) -> Any:
        """Parse a JSON object that ends with the digest of the rest."""
        data = path.read_bytes()
        body = data[:-53] + b"}" if data[-53:-52] == b"," else b"{}"
        stated = data[-52:-2].decode().removeprefix('"digest":"')
        check(hashlib.blake2b(body, digest_size=20).hexdigest() == stated, str(path))
        return json.loads(data)

    def member(self, name: str) -> Any:
        """A member of the entry, from its page where it was too large for the entry."""
        value = self.log_entry[name]
        if list(value) != ["page"]:
            return value
        *place, checksum = value["page"]
        return json.loads(bytes(self.page(*place, int(checksum, 16))["json"]))

    def blob(self, pack: str, offset: int, nbytes: int, checksum: int) -> bytes:
        with (self.folder / "packs" / pack[30:32] / f"{pack}.tlp").open("rb") as file:
            file.seek(offset)
            data = file.read(nbytes)
        check(xxh3_64_intdigest(data) == checksum, f"pack {pack} at {offset}")
        return data

    def page(self, *place: Any) -> Columns:
        """The columns of a page, by name."""
        data = self.blob(*place)
        magic, version, _, sections = struct.unpack_from("<4sBBH", data)
        know("pages of", (magic, version), [(b"TLPG", 1)])
        columns, at = Columns(), 32
        for _ in range(sections):
            fields = struct.unpack_from("<4B4I", data, at)
            length, codec, dtype, width, start, stored, raw, _ = fields
            name, at = data[at + 20 : at + 20 + length].decode("ascii"), at + 20 + length
            items = section(data[start : start + stored], codec, dtype, raw)
            columns[name] = items.reshape(-1, width) if width else items
        if "packs" in columns:
            ids = [bytes(one) for one in columns["packs"]]
            columns["packs"] = [f"{i[:16].hex()}-{int.from_bytes(i[16:], 'little')}" for i in ids]
        return columns

    def leaves(self, root: Any) -> Iterator[Columns]:
        """All leaves of a tree in order, the tail last, in the same terms: columns by name."""
        below = [
            (height, root["packs"][pack], offset, nbytes, int(checksum, 16))
            for pack, offset, nbytes, checksum, _, _, height, _ in root.get("children", ())
        ]
        while below:
            height, *place = below.pop(0)
            page = self.page(*place)
            if height == 0:
                yield page
            else:
                below[:0] = [
                    (up, page["packs"][pack], *at) for up, pack, *at in rows_of(page, *CHILD)
                ]
        if tail := root.get("tail"):
            checksums = [int(one, 16) for one in re.findall(".{16}", tail.get("checksum", ""))]
            payload = base64.b64decode(tail.get("payload", ""))
            yield tail | {"checksum": checksums, "payload": payload}

    def physical_rows(self) -> np.ndarray:
        """The physical row of each row of this version."""
        found = [np.zeros(0, np.int64)]
        for leaf in self.leaves(self.log_entry["rows"]):
            payload, at = np.frombuffer(bytes(leaf.get("payload", b"")), np.uint8), 0
            for kind, base, length, span, bits, nbytes in rows_of(leaf, *SEGMENT):
                know("row segments of kind", kind, (0, RANGE, HOLES, PACKED))
                flags, at = np.unpackbits(payload[at : at + nbytes], bitorder="little"), at + nbytes
                if kind == PACKED:
                    places = 1 << np.arange(bits, dtype=np.int64)
                    rows = flags[: length * bits].reshape(length, bits) @ places
                else:
                    rows = np.flatnonzero(flags[:span]) if kind == HOLES else np.arange(length)
                check(len(rows) == length, "row segment")
                found.append(base + rows)
        return np.concatenate(found).astype(np.int64)

    def read(self, name: str) -> list[Any]:
        """All samples of a tensor, in the version's order."""
        tensor, samples = self.tensors[name], list[Any]()
        for leaf in self.leaves(self.member("roots")[tensor["id"]]):
            for rows, skip, kind, read_as, pack, *place in rows_of(leaf, *EXTENT):
                know("extents of kind", kind, (UNIFORM, RAGGED, ENCODED, FILL, HOLE))
                if kind in (FILL, HOLE):
                    samples += [filled(tensor) if kind == FILL else None] * rows
                    continue
                chunk = self.blob(leaf["packs"][pack], *place)
                samples += decoded(chunk, tensor, tensor["encodings"][read_as])[skip : skip + rows]
        check(len(samples) == self.log_entry["physical"], f"index of {name}")
        return [samples[row] for row in self.physical_rows()]


def encoded(name: str) -> str:
    """A branch's name as its folder is called."""
    data = unicodedata.normalize("NFC", name).encode().decode("latin-1")
    escape = r"[^a-z0-9.-]|^\.|\.$|^(?=(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\.|$))."
    return re.sub(escape, lambda found: f"_{ord(found[0]):02x}", data, flags=re.DOTALL)


def rows_of(columns: Columns, *names: str) -> Iterator[tuple[int, ...]]:
    """The rows of some columns; one that is left out is zeros."""
    zeros = [0] * len(columns["rows"])
    chosen = [columns[name] if len(columns.get(name, ())) else zeros for name in names]
    return zip(*(map(int, column) for column in chosen), strict=True)


def section(data: bytes, codec: int, number: int, raw_nbytes: int) -> np.ndarray:
    """Decode a section of a page: plain, repeated, or Zstandard, shuffled, of differences."""
    know("sections of codec", codec, range(5))
    know("sections of dtype", number, DTYPES)
    dtype, unsigned = (np.dtype(f"<{one}{DTYPES[number][1]}") for one in (DTYPES[number][0], "u"))
    if codec == 4:
        return np.repeat(np.frombuffer(data, dtype), raw_nbytes // dtype.itemsize)
    plain = np.frombuffer(Zstd().decode(data) if codec else data, np.uint8)
    if codec < 2:
        return plain.view(dtype)
    items = np.ascontiguousarray(plain.reshape(dtype.itemsize, -1).T).reshape(-1).view(unsigned)
    return (items if codec == 2 else np.cumsum(items, dtype=unsigned)).view(dtype)


def newest(tensor: Any) -> Any:
    """The encoding of new chunks, whose dtype is the type's."""
    return [one for one in tensor["encodings"] if "codes" not in one][-1]


def decoded(chunk: bytes, tensor: Any, encoding: Any) -> list[Any]:
    """The samples of a chunk, brought to the tensor's type."""
    magic, kind, flags, ndim, rows, at, nbytes, raw, _ = struct.unpack_from("<4sBBHIIQQI", chunk)
    check(magic == b"TLC1" and len(chunk) == at + nbytes, "chunk header")
    know("chunks of kind", kind, (UNIFORM, RAGGED, ENCODED))
    header, payload = chunk[64:at], chunk[at:]
    valid = np.ones(rows, bool)
    if flags & 1:
        bits, header = header[: -(-rows // 8)], header[-(-rows // 8) :]
        valid = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[:rows].astype(bool)
    columns = list[np.ndarray]()
    for _ in range((kind == ENCODED) + (ndim if flags & 4 else 0)):
        column, header = header_column(header, rows)
        columns.append(column)
    for codec in reversed(encoding["codecs"][1:] if payload and not flags & 8 else []):
        know("the codec", codec["name"], CODECS)
        make, said = CODECS[codec["name"]], codec["configuration"]
        payload = (make(said["elementsize"]) if make is Shuffle else make()).decode(payload)
    check(len(payload) == raw, "payload")
    if kind == ENCODED:
        stops, values = np.cumsum(columns[0]), bytes(payload)
        samples = [values[stop - size : stop] for size, stop in zip(columns[0], stops, strict=True)]
    else:
        items = np.frombuffer(bytes(payload), np.dtype(encoding["dtype"]).newbyteorder("<"))
        if codes := encoding.get("codes"):
            check(not len(items) or 0 <= items.min() <= items.max() < len(codes), "code")
            items = np.array(codes, items.dtype)[items]
        items = items.astype(newest(tensor)["dtype"])
        shapes = np.array(columns).T if kind == RAGGED else [encoding["shape"]] * rows
        stops = np.cumsum([int(np.prod(one)) for one in shapes], dtype=np.int64)[:-1]
        samples = [one.reshape(to) for one, to in zip(np.split(items, stops), shapes, strict=False)]
    return [sample if own else None for sample, own in zip(samples, valid, strict=True)]


def header_column(header: bytes, rows: int) -> tuple[np.ndarray, bytes]:
    """A column of integers of a chunk's header, and what follows it."""
    base, width, is_compressed, _, nbytes = struct.unpack_from("<qBBHI", header)
    data = header[16 : 16 + nbytes]
    data = Zstd().decode(data) if is_compressed else data
    items = np.frombuffer(data, f"<u{width}").astype(np.int64) if width else np.zeros(rows, int)
    check(len(items) == rows, "column of a chunk header")
    return items + base, header[16 + nbytes :]


def filled(tensor: Any) -> Any:
    """The sample that a fill extent stands for."""
    encoding, fill = newest(tensor), tensor["fill"]
    if fill is None:
        return None
    if encoding["kind"] != "encoded":
        values = np.array(fill, encoding["dtype"])
        shape = [-1 if length is None else length for length in encoding["shape"]]
        return values.reshape(shape) if values.size else values
    if tensor["type"]["kind"] != "text":
        fill = json.dumps(fill, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return fill.encode()


if __name__ == "__main__":
    branch, _, number = (sys.argv[2] if len(sys.argv) > 2 else "main").partition("@")
    dataset = Dataset(sys.argv[1], branch, int(number) if number else None)
    for name, tensor in dataset.tensors.items():
        print(name, tensor["type"]["kind"], *(repr(one)[:60] for one in dataset.read(name)[:1]))
    print(dataset.num_rows, "rows of", dataset.log_entry["message"])
