"""Labels that predictions contradict: confident learning.

The method is that of Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in
Dataset Labels", JAIR 70 (2021): https://arxiv.org/abs/1911.00068

    threshold of a class    the mean probability of it, over the rows labelled with it
    confident joint         rows by given label and by likely true one: of the classes whose
                            probability reaches their threshold, the most probable
    joint                   the confident joint, scaled so that its rows sum to the given labels
    issues                  for each pair of different classes, as many rows as the joint estimates,
                            by the margin of the other class over the given one
                            ("prune by noise rate"), unless the given class is the most probable
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.rowset import RowSet, rowset_of
from tensorlake.dataset.handles.dataset import View
from tensorlake.dataset.handles.rows import Rows
from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import ClassLabel, RaggedColumn, UniformColumn, holds_floats

__all__ = ["find_label_issues", "issues_of", "label_issues_of"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]

FLOAT = tql.ColumnType("number", "float64", ())
INT = tql.ColumnType("number", "int64", ())
SUM_TOLERANCE = 1e-2


def find_label_issues(ds: Rows, label: str, pred_probs: str) -> View:
    """Find rows whose label is likely wrong, by predicted probabilities (confident learning).

    The probabilities must be out of sample, as of cross-validation: a model that was trained on a
    label repeats it. Rows without a label or without probabilities are left out, as are rows
    with NaN among their probabilities; ``explain()`` of the result counts these.

    Args:
        ds: A dataset, or a view of its rows.
        label: A tensor of one class label per row.
        pred_probs: A tensor of as many floats as there are classes, which sum to 1.

    Returns:
        The rows, worst first, with two more columns: ``issue_score``, 1 minus the probability of
        the given label, and ``suggested``, the code of the most probable class.

    Raises:
        InvalidInputError: A column is of another kind, or values are not probabilities.
        TensorNotFoundError: There is no such tensor.

    Example:
        >>> import tensorlake as tl
        >>> types = {"label": tl.ClassLabel(["cat", "dog"]), "p": tl.Array("float32", (2,))}
        >>> ds = tl.create("memory://doc-label-issues", types)
        >>> p = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.05, 0.95]]
        >>> ds.extend({"label": ["cat", "cat", "dog", "dog", "cat"], "p": p})
        >>> _ = ds.commit("five")
        >>> issues = tl.find_label_issues(ds, "label", "p")
        >>> issues.rows.tolist(), issues["suggested"][:].tolist()
        ([4], [1])
    """
    if not isinstance(ds, Rows):
        raise InvalidInputError(
            f"find_label_issues() takes a dataset or a view, got {type(ds).__name__} {shown(ds)}",
            actual=ds,
        )
    rows = rowset_of(ds)
    if not rows.has_rows:
        raise InvalidInputError(
            "find_label_issues() needs rows of a dataset, and these are groups or values of a query"
            "\ngive the dataset, or a view of its rows"
        )
    return View(label_issues_of(rows, label, pred_probs)[0])


def label_issues_of(rows: RowSet, label: str, pred_probs: str) -> tuple[RowSet, int]:
    """Find rows whose label is likely wrong, and count rows left out for NaN probabilities."""
    codes, has_label, count = _labels(rows, label)
    probs, has_probs = _probabilities(rows, pred_probs, label, count)
    is_nan = has_label & has_probs & np.isnan(probs).any(axis=1)
    used = np.flatnonzero(has_label & has_probs & ~is_nan)
    _check(rows, used, probs, pred_probs)
    found, scores, suggested = issues_of(codes[used], probs[used])
    taken = rows.take(used[found])
    added = {
        "issue_score": Computed(FLOAT, tql.UniformBatch(scores)),
        "suggested": Computed(INT, tql.UniformBatch(suggested)),
    }
    how = f"Label issues: {len(found):,} of {len(used):,} rows with a label and probabilities"
    left_out = int(np.count_nonzero(is_nan))
    if left_out:
        how += f"; left out for NaN among the probabilities: {left_out:,}"
    computed = {**taken.computed, **added}
    return replace(taken, computed=computed, steps=None, tql=None, explanation=how), left_out


def issues_of(codes: Int64Array, probs: Floats) -> tuple[Int64Array, Doubles, Int64Array]:
    """Find issues by confident learning.

    Args:
        codes: Given labels, (n,).
        probs: Probabilities by class, (n, k).

    Returns:
        Indexes of issues, worst first; 1 minus the probability of each given label; and the most
        probable class of each.
    """
    count, classes = probs.shape
    own = probs[np.arange(count), codes].astype(np.float64)
    given = np.bincount(codes, minlength=classes)
    sums = np.bincount(codes, weights=own, minlength=classes)
    with np.errstate(invalid="ignore"):
        thresholds = np.where(given > 0, sums / given, np.inf)
    joint = _confident_joint(codes, probs, thresholds)
    wanted = np.rint(joint * given[:, None] / joint.sum(axis=1, keepdims=True)).astype(np.int64)
    is_issue = np.zeros(count, dtype=np.bool_)
    for code in np.flatnonzero(given):
        rows = np.flatnonzero(codes == code)
        margins = probs[rows] - probs[rows, code][:, None]
        for other in np.flatnonzero(wanted[code]):
            if other != code:
                most = min(int(wanted[code, other]), len(rows))
                is_issue[rows[np.argsort(-margins[:, other], kind="stable")[:most]]] = True
    best = probs.argmax(axis=1)
    found = np.flatnonzero(is_issue & (probs[np.arange(count), best] > own))
    order = np.argsort(own[found], kind="stable")
    found = found[order]
    return found, 1 - own[found], best[found].astype(np.int64)


def _confident_joint(codes: Int64Array, probs: Floats, thresholds: Doubles) -> Doubles:
    """Count rows by given label and by likely true one; a class that has none counts as right."""
    classes = probs.shape[1]
    reaching = np.where(probs >= thresholds - np.finfo(np.float32).eps, probs, -np.inf)
    likely = reaching.argmax(axis=1)
    is_confident = np.isfinite(reaching[np.arange(len(codes)), likely])
    pairs = codes[is_confident] * classes + likely[is_confident]
    joint = np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
    joint = joint.astype(np.float64)
    empty = np.flatnonzero(joint.sum(axis=1) == 0)
    joint[empty, empty] = 1
    return joint


def _stored(rows: RowSet, name: Any) -> Any:
    if not isinstance(name, str) or name not in rows.selection.columns:
        raise unknown_column(name, rows.selection.columns)
    return rows.selection.snapshot.spec(name).type


def _labels(rows: RowSet, name: str) -> tuple[Int64Array, npt.NDArray[np.bool_], int]:
    kind = _stored(rows, name)
    column = rows.read(name) if isinstance(kind, ClassLabel) else None
    if not isinstance(kind, ClassLabel) or not isinstance(column, UniformColumn):
        raise InvalidInputError(
            f"find_label_issues() is of one class label per row, and {name!r} is"
            f" {kind.describe()}\ngive a tl.ClassLabel without per=",
            column=name,
        )
    valid = np.ones(len(column.values), np.bool_) if column.valid is None else column.valid
    return column.values.astype(np.int64), valid, len(kind.names)


def _probabilities(
    rows: RowSet, name: str, label: str, classes: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    kind = _stored(rows, name)
    is_floats = kind.dtype is not None and holds_floats(kind.dtype)
    column = rows.read(name) if is_floats and len(kind.shape) == 1 else None
    if isinstance(column, RaggedColumn) or not isinstance(column, UniformColumn):
        raise InvalidInputError(
            f"pred_probs is a float for each class, and {name!r} is {kind.describe()}"
            f"\ngive a tl.Array('float32', ({classes},))",
            column=name,
        )
    values = np.asarray(column.values)
    if len(values) and values.shape[1] != classes:
        raise InvalidInputError(
            f"{label!r} has {classes} classes, and {name!r} has {values.shape[1]} numbers per row"
            "\ngive a probability for each class, in the order of its names",
            column=name,
        )
    if values.dtype.itemsize < np.dtype(np.float32).itemsize:
        values = values.astype(np.float32)
    valid = np.ones(len(values), np.bool_) if column.valid is None else column.valid
    return values, valid


def _check(rows: RowSet, used: Int64Array, probs: Floats, name: str) -> None:
    part = probs[used]
    with np.errstate(invalid="ignore"):  # sums of both infinities
        is_good = np.abs(part.sum(axis=1) - 1) <= SUM_TOLERANCE
        is_good &= (part >= 0).all(axis=1)
    wrong = np.flatnonzero(~is_good)
    if len(wrong):
        at = used[wrong[0]]
        raise InvalidInputError(
            f"row {rows.rows[at]} of {name!r} is {shown(probs[at].tolist())}, which are not"
            " probabilities: numbers from 0 that sum to 1\nstore the softmax of the model's logits",
            column=name,
            actual=probs[at].tolist(),
        )
