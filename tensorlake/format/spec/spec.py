"""The format's constants: limits, paths of objects, identifiers.

Everything here is pure. A number that another implementation must know is named once, here, and
explained in docs/reference/format.md.

    tensorlake.json                    descriptor
    descriptor/<id>.json               the same bytes again, to restore it from
    branches/<branch>/<seq>.json       log entry; <seq> has ten digits, so a listing is in order
    branches/<branch>/HEAD             hint: copy of a recent entry
    tags/<tag>.json                    a name for a version
    packs/<xx>/<txid>-<n>.tlp          chunks and pages of one transaction; <xx> ends the txid
    runs/<name>/…                      records of training runs, which no entry refers to

A ``txid`` is 48 bits of milliseconds since 1970 and 80 random bits, as 32 hex digits.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from functools import lru_cache

from tensorlake.errors import CorruptionError, InvalidInputError

FORMAT_NAME = "tensorlake"
FORMAT_VERSION = 1

DESCRIPTOR = "tensorlake.json"
COPYING = "copying.json"
DESCRIPTORS = "descriptor/"
BRANCHES = "branches/"
TAGS = "tags/"
PACKS = "packs/"
RUNS = "runs/"
FORGOTTEN = "forgotten/"
MAIN = "main"
PIN_PREFIX = "pin-"

# The log entry (format.md, "The log entry").
MAX_ENTRY_NBYTES = 256 * 1024
MAX_MESSAGE_NBYTES = 4 * 1024
MAX_META_NBYTES = 16 * 1024
MAX_INLINE_SCHEMA_NBYTES = 32 * 1024
MAX_INLINE_MERGED_NBYTES = 32 * 1024
MAX_INLINE_ROOTS_NBYTES = 128 * 1024
MAX_INLINE_INDEXES_NBYTES = 16 * 1024
MAX_CHANGED_RANGES = 64
MAX_SEQ = 10**10 - 1

# Packs.
PACK_ALIGNMENT = 64
MAX_PACK_NBYTES = 64 * 1024 * 1024
MAX_PACK_NUMBER = 2**32 - 1

# Pages: what a reader accepts, so that a damaged length can never ask for much memory.
MAX_PAGE_NBYTES = 64 * 1024 * 1024

MAX_NAME_NBYTES = 200
NAMES_KEPT = 128  # encoded ones: each request for an entry names its branch

_FIRST_FOLDER = secrets.randbits(8)
_FOLDER_SPAN_BITS = 22  # of milliseconds: 70 minutes

_TXID = re.compile(r"[0-9a-f]{32}")
_PACK_ID = re.compile(r"([0-9a-f]{32})-(0|[1-9][0-9]{0,9})")
_PACK_PATH = re.compile(r"packs/([0-9a-f]{2})/([^/]+)\.tlp")
_ENTRY_PATH = re.compile(r"branches/([^/]+)/([0-9]{10})\.json")
_TAG_PATH = re.compile(r"tags/([^/]+)\.json")
_PLAIN_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.-")
_DEVICE_NAMES = frozenset(
    ["con", "prn", "aux", "nul"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in range(10)]
)


@dataclass(frozen=True, slots=True, order=True)
class PackId:
    """One pack: the n-th of a transaction."""

    txid: str
    n: int

    @property
    def path(self) -> str:
        """The pack's path in its dataset."""
        return f"packs/{self.txid[-2:]}/{self.txid}-{self.n}.tlp"

    def __str__(self) -> str:
        return f"{self.txid}-{self.n}"

    def to_bytes(self) -> bytes:
        """Return the 20 bytes that pages hold: the txid, then n as a little-endian u32."""
        return bytes.fromhex(self.txid) + self.n.to_bytes(4, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> PackId:
        """Read what ``to_bytes`` wrote."""
        return cls(data[:16].hex(), int.from_bytes(data[16:20], "little"))

    @classmethod
    def parse(cls, text: str) -> PackId:
        """Read "txid-n".

        Raises:
            CorruptionError: The text is not a pack's name.
        """
        found = _PACK_ID.fullmatch(text)
        if found is None or int(found[2]) > MAX_PACK_NUMBER:
            raise CorruptionError(
                f"{text!r} is not the name of a pack (32 hex digits, '-', a number)"
                "\nrun check() on the dataset",
                object=text,
            )
        return cls(found[1], int(found[2]))

    @classmethod
    def from_path(cls, path: str) -> PackId | None:
        """Return the pack of a path; None for other paths."""
        found = _PACK_PATH.fullmatch(path)
        if found is None or _PACK_ID.fullmatch(found[2]) is None:
            return None
        pack = cls.parse(found[2])
        return pack if pack.path == path else None


def new_txid(*, now_ms: int | None = None, random_bits: int | None = None) -> str:
    """Make a transaction's identifier from the local clock and the system's randomness.

    The time only spreads and sorts names; no rule compares it with anything. The last two digits
    stay for about an hour of a process: they name the folder of packs, and making a folder durable
    costs each commit as much again as making one file so.
    """
    milliseconds = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if random_bits is None:
        folder = (_FIRST_FOLDER + (milliseconds >> _FOLDER_SPAN_BITS)) % 256
        random_bits = (secrets.randbits(72) << 8) | folder
    return f"{milliseconds % 2**48:012x}{random_bits % 2**80:020x}"


def is_txid(text: object) -> bool:
    """Return whether this is a transaction's identifier."""
    return isinstance(text, str) and _TXID.fullmatch(text) is not None


@lru_cache(maxsize=NAMES_KEPT)
def descriptor_path(dataset_id: str) -> str:
    """Path of the second put of a dataset's descriptor.

    >>> descriptor_path("0" * 32)
    'descriptor/00000000000000000000000000000000.json'
    """
    return f"{DESCRIPTORS}{dataset_id}.json"


def encode_name(name: str) -> str:
    """Return the path component of a branch's or tag's name.

    The name is brought to NFC; each byte of its UTF-8 outside ``[a-z0-9.-]`` becomes ``_`` and two
    hex digits. So do a dot at either end and the first letter of a Windows device name: the
    result is safe on every file system, and two names that differ stay different without case.

    >>> encode_name("Größe/1")
    '_47r_c3_b6_c3_9fe_2f1'
    """
    # unicodedata is loaded by the first name that needs it: its tables are a megabyte.
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFC", name)
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the name {name!r} is not valid Unicode (a lone surrogate)\nchoose another name",
            name=name,
        ) from error
    if not raw:
        raise InvalidInputError("the name '' is empty\ngive it at least one character", name=name)
    last = len(raw) - 1
    is_device = raw.split(b".")[0].decode("latin-1") in _DEVICE_NAMES
    encoded = "".join(
        chr(byte)
        if byte in _PLAIN_BYTES
        and not (is_device and at == 0)
        and not (byte == ord(".") and at in (0, last))
        else f"_{byte:02x}"
        for at, byte in enumerate(raw)
    )
    if len(encoded) > MAX_NAME_NBYTES:
        raise InvalidInputError(
            f"the name {name[:40]!r}… takes {len(encoded)} bytes encoded, more than"
            f" {MAX_NAME_NBYTES}\nchoose a shorter name (letters outside a-z take 3 to 12 each)",
            name=name,
            nbytes=len(encoded),
        )
    return encoded


def decode_name(encoded: str, *, where: str = "") -> str:
    """Return the name that ``encode_name`` encoded; ``where`` names its place in errors.

    Raises:
        CorruptionError: No name is encoded like this.
    """
    raw = bytearray()
    at = 0
    while at < len(encoded):
        if encoded[at] == "_":
            digits = encoded[at + 1 : at + 3]
            if re.fullmatch(r"[0-9a-f]{2}", digits) is None:
                raise _not_a_name(encoded, where)
            raw.append(int(digits, 16))
            at += 3
        elif ord(encoded[at]) in _PLAIN_BYTES:
            raw.append(ord(encoded[at]))
            at += 1
        else:
            raise _not_a_name(encoded, where)
    try:
        name = raw.decode("utf-8")
        if encode_name(name) == encoded:
            return name
    except (UnicodeDecodeError, InvalidInputError) as error:
        raise _not_a_name(encoded, where) from error
    raise _not_a_name(encoded, where)


def check_tag_name(name: str) -> None:
    """Refuse a tag name that users may not give: those starting with "pin-" are the format's."""
    if name.startswith(PIN_PREFIX):
        raise InvalidInputError(
            f"the tag {name!r} starts with {PIN_PREFIX!r}, which is reserved for versions in use by"
            " a merge, restore or copy\nchoose another name",
            name=name,
        )
    encode_name(name)


def branch_prefix(branch: str) -> str:
    """Return the folder of a branch's log, with the slash."""
    return f"{BRANCHES}{encode_name(branch)}/"


def entry_path(branch: str, seq: int) -> str:
    """Return the path of a log entry.

    >>> entry_path("main", 12)
    'branches/main/0000000012.json'
    """
    if not 0 <= seq <= MAX_SEQ:
        raise InvalidInputError(
            f"{branch}@{seq} cannot exist: entries are numbered 0 … {MAX_SEQ}\ngive a number there",
            branch=branch,
            seq=seq,
        )
    return f"{branch_prefix(branch)}{seq:010d}.json"


def head_path(branch: str) -> str:
    """Return the path of a branch's hint."""
    return f"{branch_prefix(branch)}HEAD"


def tag_path(tag: str) -> str:
    """Return the path of a tag (a pin too; ``check_tag_name`` guards what users name)."""
    return f"{TAGS}{encode_name(tag)}.json"


def parse_entry_path(path: str) -> tuple[str, int] | None:
    """Return (branch, seq) of a log entry's path; None for any other path."""
    found = _ENTRY_PATH.fullmatch(path)
    return None if found is None else (decode_name(found[1], where=path), int(found[2]))


def parse_tag_path(path: str) -> str | None:
    """Return the name of the tag at a path; None for any other path.

    Raises:
        CorruptionError: It is a tag's but for its name, which no tag has.
    """
    found = _TAG_PATH.fullmatch(path)
    return None if found is None else decode_name(found[1], where=path)


def _not_a_name(encoded: str, where: str) -> CorruptionError:
    place = f" of {where!r}" if where else ""
    return CorruptionError(
        f"{encoded!r}{place} is not an encoded name: the object was not written by tensorlake"
        "\nremove it or rename it",
        object=where or encoded,
    )
