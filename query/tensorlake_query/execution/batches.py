"""Batches: how many rows are computed together, and what their values take.

Batches are sized by type, before anything of them is known. One whose values take more memory than
the query has left is computed again in halves, down to single rows, so that only what a single row
takes, or what a step must hold of all rows, can be too much.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from tensorlake_query.execution.evaluate import RunScope, Scope, evaluate
from tensorlake_query.execution.run import Run
from tensorlake_query.values.bound import Apply, Bound, CodesRef, ColumnRef, Constant, walk_bound
from tensorlake_query.values.memory import Held, TooMuchMemoryError, collecting, current, hold
from tensorlake_query.values.source import ColumnType, IntArray
from tensorlake_query.values.vectors import Vector, concatenated, constant, length_of, nbytes_of

BATCH_NBYTES = (
    8 << 20
)  # of samples a batch: a few milliseconds of arithmetic, within the caches of a large core
MAX_BATCH_ROWS = 1 << 18  # of numbers of FULL_NBYTES; more of narrower ones: a mebibyte is cached
FULL_NBYTES = 4
FIRST_BATCH_ROWS = 1 << 13  # of a scan, which LIMIT may end there; the next ones grow
BATCH_GROWTH = 4
MEDIA_NBYTES = 1 << 19  # a decoded image of unknown size
RAGGED_SIZE = 16  # elements along a dimension that differs by row
OBJECT_NBYTES = 128
FEW_ROWS = 1 << 13  # a batch is not cut shorter: it takes 0.1 ms beside what is computed
JSON_NBYTES = 1 << 10  # decoding takes 6 µs a value: 8,192 rows are 50 ms between two checks
# of what is computed for a batch, in units of one operation on one number: a function of the user,
# or BM25, takes as long for each of a few thousand rows as addition for all of them
MAX_BATCH_COST = 1 << 21


def _nothing(_done: int, _total: int) -> None:
    """Check nothing."""


class Values(Struct, frozen=True):
    """The values of some expressions for a batch, and the memory that they take."""

    vectors: list[Vector]
    held: Held


def values_of(
    exprs: Sequence[Bound], piece: Scope, check: Callable[[int, int], None] = _nothing
) -> Values:
    """Return the values of expressions for one batch; in parts where all of it takes too much.

    Args:
        exprs: what to compute.
        piece: the rows of the batch.
        check: called before each part, with how many rows are done of how many.

    Raises:
        TooMuchMemoryError: the values of a single row take too much, or those of all together.
    """
    try:
        return _whole(exprs, piece, check)
    except TooMuchMemoryError:
        if len(piece) <= 1:
            raise
    # not inside of `except`: the error refers, by its traceback, to all that was computed
    return joined_values(list(_in_parts(exprs, piece, check)), exprs, check)


def _in_parts(
    exprs: Sequence[Bound], piece: Scope, check: Callable[[int, int], None]
) -> Iterator[Values]:
    """Yield values of one row, then of more and more, fewer again where they take too much."""
    start, count = 0, 1
    has_forgotten = False
    while start < len(piece):
        check(start, len(piece))
        stop = min(start + count, len(piece))
        try:
            part = _whole(exprs, piece.slice(start, stop), check)
        except TooMuchMemoryError:
            if count == 1 and has_forgotten:
                raise
            part = None
        if part is not None:
            yield part
            start, count = stop, count * 2
        elif count > 1:
            count = max(count // 4, 1)
        else:  # what was read of all rows leaves too little for one: each part reads its own
            piece.forget()
            has_forgotten = True


def _whole(exprs: Sequence[Bound], piece: Scope, check: Callable[[int, int], None]) -> Values:
    held = hold("a batch")
    vectors: list[Vector] = []
    with collecting(held):
        for expr in exprs:
            check(0, len(piece))
            vectors.append(evaluate(expr, piece))
    return Values(vectors, held)


def joined_values(
    parts: Sequence[Values],
    exprs: Sequence[Bound],
    check: Callable[[int, int], None] = _nothing,
) -> Values:
    """Return the values of batches, one after the other, as those of one; copying may take long.

    Raises:
        TooMuchMemoryError: there is not enough to hold both.
    """
    if len(parts) == 1:
        return parts[0]
    num_rows = sum(length_of(part.vectors[0]) for part in parts) if exprs else 0
    held = hold("what is computed of all rows")
    for number in range(len(exprs)):
        held.add(sum(_written_nbytes(part.vectors[number]) for part in parts))
    vectors = [
        concatenated([part.vectors[number] for part in parts], partial(check, num_rows, num_rows))
        if parts
        else constant(None, expr.type, 0)
        for number, expr in enumerate(exprs)
    ]
    # what arrays refer to, texts, is in the parts: now they are gone, but it is not
    held.resize(max(sum(part.held.nbytes for part in parts), sum(map(nbytes_of, vectors))))
    for part in parts:
        part.held.drop()
    return Values(vectors, held)


def _written_nbytes(vector: Vector) -> int:
    """Return what a vector takes where it is written out: a constant for every row."""
    return vector.values.nbytes


def compute(exprs: Sequence[Bound], scope: Scope, run: Run) -> list[Vector]:
    """Return the values of expressions for every row; a column they share is read once.

    Their memory is charged to the step that reads them.
    """
    parts = pieces(scope, exprs, run) if exprs and len(scope) else ()
    work = partial(values_of, exprs, check=run.deadline.check)
    found = run.workers.mapped(work, parts, exprs)
    made = joined_values([values for _, values in found], exprs, run.deadline.check)
    made.held.move_to(current())
    return made.vectors


def batch_rows(exprs: Sequence[Bound], cost: float = 0.0) -> int:
    """Return how many rows make a batch, from the largest sample and the dearest kernel of them."""
    nodes = [node for expr in exprs for node in walk_bound(expr)]
    dearest = max([cost, *(node.cost for node in nodes if isinstance(node, Apply))])
    largest = max((sample_nbytes(node.type) for node in nodes if _takes_memory(node)), default=1)
    return max(min(rows_of(largest), int(MAX_BATCH_COST // max(dearest, 1.0))), 1)


def rows_of(nbytes: int) -> int:
    """Return how many rows make a batch, from what one of them takes."""
    return min(max(BATCH_NBYTES // nbytes, 1), MAX_BATCH_ROWS * max(FULL_NBYTES // nbytes, 1))


def pieces(scope: Scope, exprs: Sequence[Bound], run: Run, *, cost: float = 0.0) -> Iterator[Scope]:
    """Cut a scope into batches that suit what is computed; check the deadline before each.

    The caller's results may take more memory than the values: `cost` bytes per row.
    """
    step = batch_rows(exprs, cost)
    ends = _chunk_ends(scope, exprs) if len(scope) > FEW_ROWS else None
    start = 0
    while start < len(scope):
        run.deadline.check(start, len(scope))
        stop = min(start + step, len(scope))
        if ends is not None:
            following = int(np.searchsorted(ends, start + FEW_ROWS))
            stop = min(stop, int(ends[following])) if following < len(ends) else stop
        yield scope.slice(start, stop)
        start = stop


def _chunk_ends(scope: Scope, exprs: Sequence[Bound]) -> IntArray | None:
    """Return where chunks of texts end: those of one chunk are read without copying them."""
    if not isinstance(scope, RunScope):
        return None
    for expr in exprs:
        for node in walk_bound(expr):
            if isinstance(node, ColumnRef) and node.type.kind == "text" and not node.type.shape:
                return scope.ends(node.name)
    return None


def _takes_memory(node: Bound) -> bool:
    """Return whether a node's values are an array: a constant is one, and few classes are bytes."""
    return not isinstance(node, Constant | CodesRef)


def sample_nbytes(column_type: ColumnType) -> int:
    """Return what a sample of a type takes, about: of shapes that differ by row a guess."""
    if column_type.dtype is None:
        return JSON_NBYTES if column_type.kind == "json" else OBJECT_NBYTES
    if column_type.kind == "media" and None in column_type.shape:
        return MEDIA_NBYTES
    if column_type.kind == "bool" and column_type.shape.count(None) > 1:  # a mask
        return MEDIA_NBYTES
    nbytes = np.dtype(column_type.dtype).itemsize
    for size in column_type.shape:
        nbytes *= RAGGED_SIZE if size is None else max(size, 1)
    return nbytes
