"""The names that files have inside, which exports write and ingestion reads."""

from __future__ import annotations

__all__ = [
    "COMPRESSED",
    "EMPTY_ROW",
    "SCHEMA_KEYWORD",
    "SHAPES",
    "VALUES",
    "split_member",
]

VALUES, SHAPES = ".values", ".shapes"
"""Suffixes of the arrays of a ragged tensor in an ``.npz`` file."""

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""Compression by the ending of a file's name, by Arrow's names."""

SCHEMA_KEYWORD = "TENSORLAKE.schema"
EMPTY_ROW = "null"
"""The field of a row that has no other; no tensor's field ends so."""


def split_member(path: str) -> tuple[str, str] | None:
    """Split a member's path into the key and the field; None if it is not part of a sample.

    >>> split_member("train/000017.seg.png"), split_member("__meta__.json")
    (('train/000017', 'seg.png'), None)
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, field = name.partition(".")
    if not dot or not stem or name.startswith("__"):
        return None
    return folder + slash + stem, field
