"""A condition of one label column as a table: what it answers for each class code, and for NULL.

The answers are found by asking the condition itself, once, of every code of the dtype that the
source keeps (256 of a byte). For the rows they are then looked up:

    few runs of codes   a comparison or two a run           10⁷ rows, a byte each: 0.3 ms each
    more, of a byte     bytes.translate, one table look-up                         6 ms
    more, of two bytes  numpy.take                                                14 ms

Codes of more bytes, and fewer rows than there are codes, are asked themselves.
"""

from collections.abc import Callable, Sequence
from operator import is_

import numpy as np
from msgspec import Struct

from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant, QueryRef
from tensorlake_query.values.source import AnyArray, BoolArray, ColumnType, UniformBatch
from tensorlake_query.values.vectors import Vector, all_valid, constant

FEW_RUNS = 6  # a run takes at most three passes of 0.3 ms over 10⁷ bytes, a translation 6 ms
MAX_ITEMSIZE = 2


Lookup = Callable[[AnyArray], BoolArray]


class CodeTable:
    """A kernel: booleans of a condition, from the codes of its column and what queries gave."""

    def __init__(self, condition: Apply, column: ColumnType, queries: Sequence[QueryRef]) -> None:
        self._condition = condition
        self._dtype = column.dtype or "int64"
        self._queries = [id(query) for query in queries]
        self._known: _Answers | None = None

    def __call__(self, vectors: Sequence[Vector], num_rows: int) -> Vector:
        """Return the condition's booleans for the rows."""
        if not num_rows:
            return UniformBatch(np.zeros(0, np.bool_))
        codes = vectors[0]
        given: list[object] = [vector.values[0] for vector in vectors[1:]]
        known = self._known
        if known is None or not known.are_of(codes.values.dtype, given):
            known = self._asked(codes.values, given)
        if known is None:
            wide = UniformBatch(codes.values.astype(self._dtype, copy=False), codes.valid)
            return self._truth(self._condition, wide, given)
        return known.looked_up(codes)

    def _asked(self, codes: AnyArray, given: Sequence[object]) -> "_Answers | None":
        """Ask the condition of every code; None where asking it of the rows is less."""
        dtype = codes.dtype
        if dtype.itemsize > MAX_ITEMSIZE or len(codes) < 1 << 8 * dtype.itemsize:
            return None
        num_codes = 1 << 8 * dtype.itemsize
        values = np.zeros(num_codes + 1, self._dtype)
        values[:-1] = np.arange(num_codes, dtype=f"u{dtype.itemsize}").view(dtype)
        valid = np.ones(num_codes + 1, np.bool_)
        valid[-1] = False  # it stands for NULL
        truth = self._truth(self._condition, UniformBatch(values, valid), given)
        is_true = truth.values.astype(np.bool_)
        is_known = np.ones(num_codes + 1, np.bool_) if truth.valid is None else truth.valid
        self._known = _Answers(
            dtype,
            tuple(given),
            _looked_up(is_true[:-1] & is_known[:-1]),
            None if is_known.all() else _looked_up(is_known[:-1]),
            of_null=(bool(is_true[-1]), bool(is_known[-1])),
        )
        return self._known

    def _truth(self, expr: Bound, codes: Vector, given: Sequence[object]) -> Vector:
        num_rows = len(codes.values)
        match expr:
            case ColumnRef():
                return codes
            case Constant(value, column_type):
                return constant(value, column_type, num_rows)
            case QueryRef():
                members = np.empty(1, np.object_)
                members[0] = given[self._queries.index(id(expr))]
                return UniformBatch(members.repeat(num_rows))
            case Apply(kernel, args):
                inner = [self._truth(arg, codes, given) for arg in args]
                made = kernel(inner, num_rows)
                if not expr.strict:
                    return made
                return UniformBatch(made.values, all_valid([made, *inner]))
            case _:
                raise AssertionError(f"the rule leaves {type(expr).__name__} alone")


class _Answers(Struct, frozen=True):
    """Where a condition is true, and where it is known, by code."""

    dtype: np.dtype[np.generic]
    given: tuple[object, ...]
    is_true: Lookup
    is_known: Lookup | None
    of_null: tuple[bool, bool]

    def are_of(self, dtype: np.dtype[np.generic], given: Sequence[object]) -> bool:
        """Tell whether these are the answers for codes of a dtype, and what queries gave."""
        return dtype == self.dtype and all(map(is_, self.given, given))

    def looked_up(self, codes: Vector) -> Vector:
        """Return the answers for some rows."""
        found = self.is_true(codes.values)
        known = None if self.is_known is None else self.is_known(codes.values)
        if codes.valid is not None:
            found = np.where(codes.valid, found, self.of_null[0])
            if known is not None:
                known = np.where(codes.valid, known, self.of_null[1])
        return UniformBatch(found, known)


def _looked_up(answers: BoolArray) -> Lookup:
    """Return a lookup of the answers of codes; codes below 0 are in the table's upper half."""
    edges: list[int] = (np.flatnonzero(answers[1:] != answers[:-1]) + 1).tolist()
    if not edges:
        always = bool(answers[0])
        return lambda codes: np.full(len(codes), always)
    if answers[0] != answers[-1]:
        edges.insert(0, 0)
    if len(edges) > 2 * FEW_RUNS:
        if len(answers) > 1 << 8:
            return lambda codes: answers[_unsigned(codes)]
        table = answers.tobytes()
        return lambda codes: np.frombuffer(codes.tobytes().translate(table), np.bool_)
    if not answers[edges[0]]:
        edges.append(edges.pop(0))
    pairs = zip(edges[::2], edges[1::2], strict=True)
    first, *others = (_run(start, stop, len(answers)) for start, stop in pairs)
    if not others:
        return first

    def within_some(codes: AnyArray) -> BoolArray:
        found = first(codes)
        for other in others:
            np.logical_or(found, other(codes), out=found)
        return found

    return within_some


def _run(start: int, stop: int, num_codes: int) -> Lookup:
    """Return the test of codes `start` … `stop` − 1, which may go on from the highest to 0."""
    size = (stop - start) % num_codes
    if size == 1:
        return lambda codes: np.equal(_unsigned(codes), start)
    if size == num_codes - 1:
        return lambda codes: np.not_equal(_unsigned(codes), stop)

    def within(codes: AnyArray) -> BoolArray:
        unsigned = _unsigned(codes)
        return np.less(unsigned - unsigned.dtype.type(start), size)

    return within


def _unsigned(codes: AnyArray) -> AnyArray:
    return codes if codes.dtype.kind == "u" else codes.view(f"u{codes.dtype.itemsize}")
