"""Leakage: samples that are in several splits.

Samples are compared by digests of 64 bits of their stored bytes, so one among 10⁹ rows may be
taken for a copy by chance about once in forty lints. Memory: about 60 bytes per row, in sorts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.dataset.sync.digests import column_digests
from tensorlake.types import Audio, ClassLabel, Embedding, Image, Text, Video

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["LEAKAGE"]

SPLIT_NAMES = ("split", "subset", "partition")
SPLITS_MAX = 100
SPAN_ROWS = 1 << 16
SPAN_NBYTES = 64 << 20
MOSTLY_DIFFERENT = 0.5
"""Share of different texts, from which on a column of texts is not one of classes."""

LEAST_LENGTH = 16
"""Characters of texts, on average, from which on equal ones are unlikely by chance."""


def _leakage(view: Linted) -> Iterator[Suspect]:
    schema = view.schema
    for split in SPLIT_NAMES:
        if not _names_a_split(schema.get(split)):
            continue
        codes = _codes(view, split)
        if not bool((codes > 0).any()):
            continue
        for name, kind in schema.items():
            is_long = isinstance(kind, Text) and name != split and _is_long(view, name)
            if is_long or isinstance(kind, Image | Audio | Video | Embedding):
                rows = _leaked(view, name, codes, is_text=is_long)
                what = f"has samples that another {split} has, too"
                remedy = "delete the rows: a model is not tested by samples that it has seen"
                yield Suspect(name, what, "", remedy, "error", rows)


def _names_a_split(kind: SampleType | None) -> bool:
    is_list = isinstance(kind, ClassLabel) and (kind.multi or kind.per is not None)
    return isinstance(kind, ClassLabel | Text) and not is_list


def _is_long(view: Linted, name: str) -> bool:
    length = view.query(f"SELECT AVG(LENGTH({tql.print_name(name)})) AS n").item()
    return length is not None and length >= LEAST_LENGTH


def _codes(view: Linted, split: str) -> npt.NDArray[np.int8]:
    """Number the splits of the rows, the largest being 0; −1 for NULL, and for 100 and more."""
    digests, valid = _digests(view, split)
    _, which, counts = np.unique(digests[valid], return_inverse=True, return_counts=True)
    codes = np.full(len(digests), -1, np.int8)
    if len(counts) <= SPLITS_MAX:
        rank = np.empty(len(counts), np.int8)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
        codes[valid] = rank[which]
    return codes


def _leaked(view: Linted, name: str, codes: npt.NDArray[np.int8], *, is_text: bool) -> list[int]:
    """Return the positions of rows, outside of the largest split, whose sample others have, too."""
    digests, valid = _digests(view, name)
    places = np.flatnonzero(valid & (codes >= 0))
    order = places[np.argsort(digests[places], kind="stable")]
    if not len(order):
        return []
    ordered = digests[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if is_text and len(starts) < MOSTLY_DIFFERENT * len(order):
        return []
    low = np.minimum.reduceat(codes[order], starts)
    high = np.maximum.reduceat(codes[order], starts)
    counts = np.diff(np.append(starts, len(order)))
    is_shared = np.repeat(low != high, counts) & (codes[order] > 0)
    return np.sort(order[is_shared]).tolist()


def _digests(view: Linted, name: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return a digest of each sample of a column, and which are not NULL."""
    digests = np.zeros(len(view), np.uint64)
    valid = np.ones(len(view), np.bool_)
    spans = view.__rowset__.spans([name], rows_max=SPAN_ROWS, nbytes=SPAN_NBYTES)
    for start, stop in spans:
        column = view.__rowset__.read(name, np.arange(start, stop), decode=False)
        digests[start:stop] = column_digests(column)
        if column.valid is not None:
            valid[start:stop] = column.valid
    return digests, valid


LEAKAGE = LintRule("leakage", "samples that are in several splits", _leakage)
