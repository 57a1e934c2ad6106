"""Read a tensorlake dataset without tensorlake: docs/reference/format.md, in three hundred lines.

    python read_without_tensorlake.py FOLDER [BRANCH[@NUMBER]]

A second reader, written from the specification alone: NumPy for arrays, numcodecs for Zstandard and
Blosc, xxhash for checksums. It finds the head of a branch without listing, checks every digest and
checksum on its way, and gives samples as they are stored: numbers and arrays as NumPy arrays,
pictures, text and JSON as bytes, NULL as None. It is as slow as it is short; what it shows is that
your data does not need us.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import Blosc, Shuffle, Zstd
from xxhash import xxh3_64_intdigest

NO_PACK, FILL, HOLE = 0xFFFFFFFF, 5, 6
RANGE, HOLES = 1, 2
DTYPES = (None, "<u1", "<u2", "<u4", "<u8", "<i1", "<i2", "<i4", "<i8", "<f4", "<f8")
KNOWN_FEATURES = {"code-maps", "dropped-classes"}
NUMBERS = ("rows", "skip", "kind", "read_as", "pack", "offset", "nbytes", "header_nbytes")
Columns = dict[str, np.ndarray]


def check(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(f"damaged, or not as the format says: {what}")


class Dataset:
    """One version of a dataset in a folder: ``names``, ``num_rows``, ``read(name)``."""

    def __init__(self, folder: str, branch: str = "main", number: int | None = None) -> None:
        self.folder = Path(folder)
        self.branch = branch
        self.descriptor = self.sealed("tensorlake.json")
        check(
            (self.descriptor["format"], self.descriptor["version"]) == ("tensorlake", 1),
            "descriptor",
        )
        entry = self.head() if number is None else self.entry(number)
        while entry["kind"] in ("fence", "end") and entry["of"] is not None:
            entry = self.entry(entry["of"])
        unknown = set(entry["features"]["read"]) - KNOWN_FEATURES
        check(entry["kind"] == "commit" and not unknown, f"entry {entry['seq']}, {unknown}")
        self.log_entry = entry
        self.tensors = {one["name"]: one for one in self.member("schema")["tensors"]}
        self.roots = self.member("roots")
        self.names, self.num_rows = list(self.tensors), entry["rows"]["rows"]

    # Objects and the log

    def sealed(self, path: str) -> Any:
        """Parse a JSON object that ends with the digest of the rest; None when absent."""
        file = self.folder / path
        if not file.exists():
            return None
        data = file.read_bytes()
        body = data[:-53] + b"}" if data[-53:-52] == b"," else b"{}"
        stated = data[-52:-2].decode().removeprefix('"digest":"')
        check(hashlib.blake2b(body, digest_size=20).hexdigest() == stated, path)
        return json.loads(data)

    def entry(self, number: int) -> Any:
        found = self.sealed(f"branches/{encoded(self.branch)}/{number:010}.json")
        check(found is None or found["seq"] == number, f"entry {number}")
        return found

    def head(self) -> Any:
        """Double the step until an entry is absent, then bisect: a log has no gaps."""
        if "mirror_of" in self.descriptor:
            return self.sealed(f"branches/{encoded(self.branch)}/HEAD")
        known, step = 0, 1
        check(self.entry(0), f"branch {self.branch}: it has no entry")
        while self.entry(known + step):
            known, step = known + step, step * 2
        absent = known + step
        while absent - known > 1:
            middle = (known + absent) // 2
            known, absent = (middle, absent) if self.entry(middle) else (known, middle)
        return self.entry(known)

    def member(self, name: str) -> Any:
        """A member of the entry, from its page where it was too large for the entry."""
        value = self.log_entry[name]
        if list(value) != ["page"]:
            return value
        pack, offset, nbytes, checksum = value["page"]
        page = self.page(pack, offset, nbytes, int(checksum, 16))
        return json.loads(page["json"].tobytes())

    def blob(self, pack: str, offset: int, nbytes: int, checksum: int) -> bytes:
        """Bytes of a pack, checked."""
        with (self.folder / "packs" / pack[30:32] / f"{pack}.tlp").open("rb") as file:
            file.seek(offset)
            data = file.read(nbytes)
        check(xxh3_64_intdigest(data) == checksum, f"pack {pack} at {offset}")
        return data

    # Pages and trees

    def page(self, pack: str, offset: int, nbytes: int, checksum: int) -> Columns:
        """The columns of a page, by name."""
        data = self.blob(pack, offset, nbytes, checksum)
        magic, version, _, count, _, _, _ = struct.unpack_from("<4sBBHIIQ", data)
        check((magic, version) == (b"TLPG", 1), f"page {pack} at {offset}")
        columns, at = {}, 32
        for _ in range(count):
            length, codec, dtype, width, start, stored, raw, _ = struct.unpack_from(
                "<4B4I", data, at
            )
            name = data[at + 20 : at + 20 + length].decode("ascii")
            at += 20 + length
            items = section(data[start : start + stored], codec, np.dtype(DTYPES[dtype]), raw)
            columns[name] = items.reshape(-1, width) if width else items
        return columns

    def leaves(self, root: Any) -> Iterator[Any]:
        """All leaves of a tree in order, as columns; then the tail, as JSON."""
        for child in root.get("children", ()):
            pack, offset, nbytes, checksum, _, _, height, _ = child
            yield from self.below(root["packs"][pack], offset, nbytes, int(checksum, 16), height)
        if "tail" in root:
            yield root["tail"]

    def below(
        self, pack: str, offset: int, nbytes: int, checksum: int, height: int
    ) -> Iterator[Columns]:
        page = self.page(pack, offset, nbytes, checksum)
        if height == 0:
            yield page
            return
        packs = pack_names(page)
        columns = ("pack", "offset", "nbytes", "checksum", "height")
        for child in zip(*(page[name].tolist() for name in columns), strict=True):
            yield from self.below(packs[child[0]], *child[1:])

    def physical_rows(self) -> np.ndarray:
        """The physical row of each row of this version."""
        found = [np.zeros(0, np.int64)]
        for leaf in self.leaves(self.log_entry["rows"]):
            rows = leaf["rows"]
            payload = leaf.get("payload", b"")
            payload = base64.b64decode(payload) if isinstance(payload, str) else bytes(payload)
            zeros, at = [0] * len(rows), 0
            kinds = leaf.get("kind", [RANGE] * len(rows))
            spans, widths = leaf.get("span", rows), leaf.get("bits", zeros)
            lengths = leaf.get("payload_nbytes", zeros)
            for kind, base, count, span, bits, length in zip(
                *(map(int, one) for one in (kinds, leaf["base"], rows, spans, widths, lengths)),
                strict=True,
            ):
                part = np.frombuffer(payload, np.uint8, count=length, offset=at)
                flags = np.unpackbits(part, bitorder="little")
                at += length
                if kind == RANGE:
                    numbers = np.arange(count)
                elif kind == HOLES:
                    numbers = np.flatnonzero(flags[:span])
                else:
                    places = 1 << np.arange(bits, dtype=np.int64)
                    numbers = flags[: count * bits].reshape(count, bits) @ places
                check(len(numbers) == count, "row segment")
                found.append(base + numbers)
        return np.concatenate(found).astype(np.int64)

    # Samples

    def read(self, name: str) -> list[Any]:
        """All samples of a tensor, in the version's order."""
        tensor, samples = self.tensors[name], []
        for leaf in self.leaves(self.roots[tensor["id"]]):
            for extent in extents(leaf):
                if extent["kind"] in (FILL, HOLE):
                    fill = None if extent["kind"] == HOLE else filled(tensor)
                    samples += [fill] * extent["rows"]
                    continue
                place = (extent["pack"], extent["offset"], extent["nbytes"], extent["checksum"])
                encoding = tensor["encodings"][extent["read_as"]]
                window = slice(extent["skip"], extent["skip"] + extent["rows"])
                samples += decoded(self.blob(*place), encoding, tensor)[window]
        check(len(samples) == self.log_entry["physical"], f"index of {name}")
        return [samples[row] for row in self.physical_rows()]


def encoded(name: str) -> str:
    """A branch's name as its folder is called."""
    data = unicodedata.normalize("NFC", name).encode()
    first = data.split(b".")[0].decode("latin-1")
    is_device = first in ("con", "prn", "aux", "nul") or (
        first[:3] in ("com", "lpt") and first[3:].isdigit() and len(first) == 4
    )
    plain = b"abcdefghijklmnopqrstuvwxyz0123456789.-"
    return "".join(
        chr(byte)
        if byte in plain
        and not (at == 0 and is_device)
        and not (byte == ord(".") and at in (0, len(data) - 1))
        else f"_{byte:02x}"
        for at, byte in enumerate(data)
    )


def newest(tensor: Any) -> Any:
    """The encoding of new chunks, whose dtype is the type's."""
    return [one for one in tensor["encodings"] if "codes" not in one][-1]


def section(data: bytes, codec: int, dtype: np.dtype, raw_nbytes: int) -> np.ndarray:
    """Decode a section of a page."""
    if codec == 0:
        return np.frombuffer(data, dtype)
    if codec == 4:
        return np.repeat(np.frombuffer(data, dtype), raw_nbytes // dtype.itemsize)
    plain = np.frombuffer(Zstd().decode(data), np.uint8)
    if codec == 1:
        return plain.view(dtype)
    items = np.ascontiguousarray(plain.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)
    if codec == 2:
        return items
    return np.cumsum(items.view(f"<u{dtype.itemsize}"), dtype=f"<u{dtype.itemsize}").view(dtype)


def pack_names(page: Columns) -> list[str]:
    """Names of the packs that a page counts in."""
    records = [bytes(record) for record in page["packs"]]
    return [f"{one[:16].hex()}-{int.from_bytes(one[16:], 'little')}" for one in records]


def extents(leaf: Any) -> Iterator[dict[str, Any]]:
    """The extents of a leaf or a tail, a dict each."""
    count = len(leaf["rows"])
    columns = {name: [int(one) for one in leaf.get(name, [0] * count)] for name in NUMBERS}
    text = leaf.get("checksum", "0" * 16 * count)
    is_tail = isinstance(text, str)
    checksums = [int(text[at : at + 16], 16) for at in range(0, len(text), 16)] if is_tail else text
    packs = leaf.get("packs", []) if is_tail else pack_names(leaf)
    for at in range(count):
        extent = {name: column[at] for name, column in columns.items()}
        has_pack = extent["pack"] not in (-1, NO_PACK) and len(packs)
        yield extent | {
            "pack": packs[extent["pack"]] if has_pack else None,
            "checksum": int(checksums[at]),
        }


def decoded(chunk: bytes, encoding: Any, tensor: Any) -> list[Any]:
    """The samples of a chunk, brought to the tensor's type."""
    fields = struct.unpack_from("<4sBBHIIQQI", chunk)
    magic, kind, flags, ndim, rows, header_nbytes, payload_nbytes, decoded_nbytes, _ = fields
    check(magic == b"TLC1" and len(chunk) == header_nbytes + payload_nbytes, "chunk header")
    at, valid = 64, np.ones(rows, bool)
    if flags & 1:
        nbytes = -(-rows // 8)
        bits = np.frombuffer(chunk, np.uint8, count=nbytes, offset=at)
        valid, at = np.unpackbits(bits, bitorder="little")[:rows].astype(bool), at + nbytes
    if kind == 3:
        lengths, at = header_column(chunk, at, rows)
    shapes = []
    for _ in range(ndim if flags & 4 else 0):
        axis, at = header_column(chunk, at, rows)
        shapes.append(axis)
    is_compressed = len(encoding["codecs"]) > 1 and not flags & 8
    codecs = encoding["codecs"][1:] if is_compressed else []
    payload = unpacked(chunk[header_nbytes:], codecs)
    check(len(payload) == decoded_nbytes, "payload")
    if kind == 3:
        stops = np.cumsum(lengths)
        samples = [payload[stop - n : stop] for n, stop in zip(lengths, stops, strict=True)]
    else:
        values = np.frombuffer(payload, np.dtype(encoding["dtype"]).newbyteorder("<"))
        if "codes" in encoding:
            check(
                values.size == 0 or 0 <= values.min() <= values.max() < len(encoding["codes"]),
                "code",
            )
            values = np.array(encoding["codes"], values.dtype)[values]
        values = values.astype(newest(tensor)["dtype"])
        shape = np.array(shapes).T if kind == 2 else [encoding["shape"]] * rows
        stops = np.cumsum([int(np.prod(one)) for one in shape])
        samples = [
            values[stop - int(np.prod(one)) : stop].reshape(one)
            for one, stop in zip(shape, stops, strict=True)
        ]
    return [sample if own else None for sample, own in zip(samples, valid, strict=True)]


def header_column(chunk: bytes, at: int, rows: int) -> tuple[np.ndarray, int]:
    """A column of integers in a chunk's header, and where the next one starts."""
    base, width, coding, _, nbytes = struct.unpack_from("<qBBHI", chunk, at)
    data = chunk[at + 16 : at + 16 + nbytes]
    data = Zstd().decode(data) if coding else data
    items = (
        np.frombuffer(data, f"<u{width}").astype(np.int64) if width else np.zeros(rows, np.int64)
    )
    check(len(items) == rows, "column of a chunk header")
    return items + base, at + 16 + nbytes


def unpacked(data: bytes, codecs: Any) -> bytes:
    """Undo a pipeline of Zarr codecs; empty arrays are no bytes."""
    for codec in reversed(codecs if data else []):
        if codec["name"] == "numcodecs.shuffle":
            data = bytes(Shuffle(codec["configuration"]["elementsize"]).decode(data))
        else:
            data = (Blosc() if codec["name"] == "blosc" else Zstd()).decode(data)
    return bytes(data)


def filled(tensor: Any) -> Any:
    """The sample that a fill extent stands for."""
    encoding, fill = newest(tensor), tensor["fill"]
    if fill is None:
        return None
    if encoding["kind"] == "encoded":
        if isinstance(fill, str) and tensor["type"]["kind"] == "text":
            return fill.encode()
        return json.dumps(fill, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    values = np.array(fill, encoding["dtype"])
    shape = [-1 if length is None else length for length in encoding["shape"]]
    return values.reshape(shape) if values.size else values


if __name__ == "__main__":
    branch, _, number = (sys.argv[2] if len(sys.argv) > 2 else "main").partition("@")
    dataset = Dataset(sys.argv[1], branch, int(number) if number else None)
    for tensor in dataset.names:
        first = dataset.read(tensor)[:1]
        print(tensor, dataset.tensors[tensor]["type"]["kind"], repr(first[0])[:60] if first else "")
    print(dataset.num_rows, "rows of", dataset.log_entry["message"])
