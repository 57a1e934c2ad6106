"""The ways in which a Dataset and a View choose rows and columns: each gives a View.

They are methods of both. Most are one line that calls its own module: those that are queries leave
the engine unloaded until the first query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tensorlake.dataset.core.rowset import HasViews
from tensorlake.quantities import Duration, checked_integer, parse_nbytes, seconds_of

if TYPE_CHECKING:
    from tensorlake.dataset.handles.row import Row
    from tensorlake.dataset.query.predicate import Predicate

__all__ = [
    "filter",
    "order_by",
    "query",
    "sample",
    "search",
    "select",
    "split",
    "take",
    "unnest",
    "where",
]

MOST_ROWS = (1 << 63) - 1
"""The largest LIMIT: an int64."""

View = TypeVar("View")  # the class of views: it has these methods, and stands above this module


def query(  # noqa: D417 - a method: self
    self: HasViews[View],
    tql: str,
    /,
    *,
    timeout: Duration | None = None,
    max_bytes: int | str | None = None,
    max_memory: int | str | None = None,
    **params: Any,
) -> View:
    """Select rows (and compute columns) by a TQL query; see docs/reference/tql.md.

    Args:
        tql: The query.
        timeout: Seconds after which it ends with an error, or "5min", or a timedelta.
        max_bytes: Bytes of samples read after which it ends with an error, or "4GiB".
        max_memory: Bytes that it may hold at once, or "4GiB", also when what it computes is
            read later; it ends with an error before it holds more. None: half of the memory of
            the machine.
        **params: A value for each ``$name``: numbers, texts, arrays; for FROM a dataset, a
            view, a DataFrame or an Arrow table.

    Raises:
        QueryError: The text is not TQL, or names what does not exist; it shows the place.
        QueryLimitError: A limit was passed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-query", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.query("WHERE x > $least ORDER BY x DESC", least=1)["x"][:].tolist()
        [3, 2]
        >>> ds.query("SELECT SUM(x)").item()
        6
        >>> ds.discard()
    """
    from tensorlake.dataset.core.query_limits import QueryLimits
    from tensorlake.dataset.query.run import run_query

    limits = QueryLimits(
        None if timeout is None else seconds_of(timeout, what="timeout"),
        None if max_bytes is None else parse_nbytes(max_bytes, name="max_bytes"),
        memory_nbytes=(None if max_memory is None else parse_nbytes(max_memory, name="max_memory")),
    )
    return self.__view__(run_query(self.__rowset__, tql, params, limits))


def where(self: HasViews[View], condition: str | Predicate, /, **params: Any) -> View:
    """Select the rows that meet a condition: TQL text without WHERE, or a Predicate.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-where", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.where("x > 1").count(), ds.where(ds["x"] == 1).count()
        (2, 1)
        >>> ds.discard()
    """
    from tensorlake.dataset.query.run import run_where

    return self.__view__(run_where(self.__rowset__, condition, params))


def select(self: HasViews[View], *names: str | Sequence[str], **expressions: str) -> View:
    """Keep exactly the columns named ("*": all of them), and add ones computed by TQL.

    Names may come one by one or as one list.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-select", {"x": "int64", "y": "int64"})
        >>> ds.extend({"x": [1, 2], "y": [10, 20]})
        >>> view = ds.select("x", total="x + y")
        >>> view.tql, view["total"]
        ('SELECT x, x + y AS total', array([11, 22]))
    """
    from tensorlake.dataset.query import builder as selecting

    return self.__view__(selecting.select(self.__rowset__, names, expressions))


def order_by(self: HasViews[View], *keys: str | Sequence[str], **params: Any) -> View:
    """Sort rows by keys, as ORDER BY takes them: ``order_by("score DESC")``, or a list.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-order-by", {"x": "int64"})
        >>> ds.extend({"x": [2, 3, 1]})
        >>> ds.order_by("x DESC").take(2)["x"][:].tolist()
        [3, 2]
        >>> ds.discard()
    """
    from tensorlake.dataset.query import builder as selecting

    return self.__view__(selecting.order_by(self.__rowset__, keys, params))


def unnest(self: HasViews[View], *columns: str | Sequence[str]) -> View:  # noqa: D417 - a method: self
    """Make one row of each item of columns such as boxes and their labels; the others repeat.

    The columns have equally many items in each row. ``_row`` is the number of the row that an item
    is of, and ``ds.query("… FROM UNNEST(this, boxes, label) …")`` is the same in TQL.

    Args:
        *columns: Names of tensors whose samples are arrays or lists, or one list of them.

    Raises:
        QueryTypeError: A column is not a list of items, or a row has other numbers of items.

    Example:
        >>> import tensorlake as tl
        >>> schema = {"boxes": tl.BBox(), "label": tl.ClassLabel(["cat", "dog"], per="boxes")}
        >>> ds = tl.create("memory://doc-unnest", schema)
        >>> ds.append({"boxes": [[0, 0, 2, 2], [1, 1, 9, 5]], "label": ["dog", "cat"]})
        >>> ds.append({"boxes": [[3, 3, 4, 4]], "label": ["cat"]})
        >>> cats = ds.unnest("boxes", "label").where("label = 'cat'")
        >>> cats.select("_row", "boxes")["boxes"][:].tolist(), cats.rows.tolist()
        ([[1.0, 1.0, 9.0, 5.0], [3.0, 3.0, 4.0, 4.0]], [0, 1])
        >>> ds.discard()
    """
    from tensorlake.dataset.query import builder as selecting

    return self.__view__(selecting.unnest(self.__rowset__, columns))


def filter(  # noqa: A001 - the method's name
    self: HasViews[View], condition: Callable[[Row], Any] | Predicate | str
) -> View:
    """Keep the rows for which a Python function of a Row holds; warns that it is slow.

    A condition (TQL text, or a Predicate) belongs to ``where``; passed here it still works, with
    a ``DeprecationWarning``.

    Example:
        >>> import warnings
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-filter", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> with warnings.catch_warnings(action="ignore"):
        ...     ds.filter(lambda row: row["x"] % 2 == 1)["x"][:]
        array([1, 3])
        >>> ds.discard()
    """
    from tensorlake.dataset.handles.row import row_at
    from tensorlake.dataset.query import builder as selecting

    rows = self.__rowset__
    return self.__view__(selecting.filter_rows(rows, condition, partial(row_at, rows)))


def search(  # noqa: D417 - a method: self
    self: HasViews[View],
    column: str,
    query: Any,
    k: int = 10,
    *,
    where: str | Predicate | None = None,
    params: Mapping[str, Any] | None = None,
    exact: bool = False,
    hybrid: tuple[str, Any] | None = None,
    recall: float | None = None,
) -> View:
    """Find the rows nearest to a vector, or that match words best, best first.

    The view has a column ``_score``, float64, larger is better: of vectors, by the metric of the
    column, the cosine of the angle, the inner product, or the negated Euclidean distance; of texts,
    BM25 (k1 = 1.2, b = 0.75, over the texts of these rows). Rows without a score (NULL, NaN) are
    not found. An index made by ``create_index`` makes it faster: it finds most of the nearest
    vectors (``ds.indexes`` shows its recall) and exactly the best texts. Rows that changed since
    are read.

    Args:
        column: A tensor of vectors of floats, one or several a row, or of texts.
        query: A vector (dim,), or several (n, dim); of a column with several vectors a row, the
            vectors of one query (m, dim), or a list of such, ranked by MaxSim; or words,
            with prefixes ``car*`` and, as the index has positions or none is there, phrases
            ``"stop sign"``; or a list of such.
            Several queries give the rows of each in turn, and a column ``_query``, int64.
        k: How many rows of each query.
        where: A condition, as TQL text or a Predicate: the best of the rows that meet it.
        params: A value for each ``$name`` of the condition.
        exact: Compare all vectors; texts always are.
        hybrid: Another column and a query of it: two rankings joined by reciprocal rank, whose
            ``_score`` is the sum of 1 ÷ (60 + rank). ``_rank`` and ``_hybrid_rank``, int64, are
            NULL where a row is not among the first 4 k of a ranking.
        recall: The share of the nearest vectors that the index shall find, as measured when it was
            made; by default 0.95.

    Raises:
        InvalidInputError: The query does not fit the column, or has NaN.
        ShapeMismatchError: Its vectors have another length.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-search", {"vec": tl.Embedding(2), "text": "str"})
        >>> ds.extend({"vec": [[1, 0], [0, 1], [1, 1]], "text": ["a red car", "a bus", "red bus"]})
        >>> ds.search("vec", [2, 1], k=2)["text"][:]
        ['red bus', 'a red car']
        >>> ds.search("text", "red bus", k=1).rows.tolist()
        [2]
        >>> ds.discard()
    """
    from tensorlake.dataset.query.search import search as search_rows

    found = search_rows(
        self.__rowset__,
        column,
        query,
        k,
        where=where,
        params=params,
        exact=exact,
        hybrid=hybrid,
        recall=recall,
    )
    return self.__view__(found)


def take(self: HasViews[View], count: int) -> View:
    """Select the first rows.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-take", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.take(2)["x"][:]
        array([1, 2])
        >>> ds.discard()
    """
    by_position = "rows by their positions are rows[start:stop], or rows[[3, 1, 4]]"
    count = checked_integer(count, name="count", advice=by_position)
    rows = self.__rowset__
    first = np.arange(min(count, len(rows)), dtype=np.int64)
    return self.__view__(rows.take_step(first, f"LIMIT {min(count, MOST_ROWS)}"))


def sample(self: HasViews[View], count: int, *, seed: int = 0) -> View:
    """Select rows at random, without repeats, the same for the same seed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-sample", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> len(ds.sample(2, seed=7))
        2
        >>> ds.discard()
    """
    seed = checked_integer(seed, name="seed")
    rows = self.__rowset__
    count = checked_integer(count, name="count", most=len(rows), advice="each row is taken once")
    chosen = np.random.Generator(np.random.Philox(seed)).permutation(len(rows))[:count]
    return self.__view__(rows.take(chosen.astype(np.int64)))


def split(  # noqa: D417 - a method: self
    self: HasViews[View],
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    stratify: str | None = None,
    group: str | None = None,
    exact: bool = False,
) -> dict[str, View]:
    """Split the rows into parts, such as train and val.

    A row keeps its split when others are added, because the split depends on the row id.

    Args:
        shares: The share of each side, by name; they sum to 1.
        seed: Another gives another split.
        stratify: A tensor of one class (or number, or text) a row: each class is split by the
            shares.
        group: A tensor whose rows of one value stay together, such as ``"patient_id"``.
        exact: Cut so that shares hold to one row, or group; rows may change sides when others
            are added.

    Returns:
        A view of each side; every row is in exactly one.

    Raises:
        InvalidInputError: Shares that do not sum to 1, or a NULL class or group.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-split", {"x": "int64"})
        >>> ds.extend({"x": range(1000)})
        >>> parts = ds.split({"train": 0.8, "val": 0.2}, exact=True)
        >>> len(parts["train"]), len(parts["val"])
        (800, 200)
        >>> ds.discard()
    """
    from tensorlake.dataset.transform import split as splitting

    parts = splitting.split(
        self.__rowset__, shares, seed=seed, stratify=stratify, group=group, exact=exact
    )
    return {name: self.__view__(part) for name, part in parts.items()}
