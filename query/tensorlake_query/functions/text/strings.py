"""Text: LOWER, UPPER, TRIM, SUBSTR, LEFT, RIGHT, CONCAT, REPLACE, SPLIT, KEYS, CONTAINS."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import (
    TEXT_COST,
    bind_compare,
    required_number,
    required_text,
)
from tensorlake_query.functions.text.matching import containing
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import JSON_COST, encoded_constant, is_text_constant
from tensorlake_query.values.memory import charge, objects_nbytes
from tensorlake_query.values.source import BoolArray, RaggedBatch, UniformBatch
from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.types import BOOL, TEXT, TEXTS, describe
from tensorlake_query.values.vectors import Vector, made_texts, object_array, python_values

CASED_LENGTH = 3  # characters that one may become in another case
PART_NBYTES = 80  # of a part of a text, beside its characters: an object, and where it is found


def _bind_case(change: Callable[[str], str]) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        operand = required_text(site, site.args[0])

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            texts = python_values(vectors[0].values)
            made = made_texts(change, texts, longest=_longest_cased, exact=_length_cased)
            return UniformBatch(made)

        column_type = replace(TEXT, nullable=operand.type.nullable)
        return site.apply(kernel, column_type, args=(operand,), cost=TEXT_COST)

    return bind


def _longest_cased(length: int) -> int:
    return length * CASED_LENGTH


def _length_cased(text: str) -> int:
    return len(text) * CASED_LENGTH


def _bind_contains(site: Site) -> Bound:
    """Bind CONTAINS: part of a text, or element of an array, of labels, of a JSON list."""
    container, value = site.args
    if container.type.shape or container.type.kind == "label":
        written = tuple(ast.operands(site.syntax))
        equal = ast.Compare("=", written[0], written[1], span=site.syntax.span)
        if not container.type.shape:
            return site.bind(equal)
        return site.bind(ast.Call("ANY", (equal,), span=site.syntax.span))
    if container.type.kind == "json":
        return _bind_json_contains(site)
    container = required_text(site, container)
    value = required_text(site, value)
    known = encoded_constant(value)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        packed = texts_of(vectors[0].values)
        if packed is not None and known is not None:
            return UniformBatch(containing(packed, known))
        texts, wanted = (python_values(vector.values) for vector in vectors)
        if is_text_constant(value) and wanted:
            needle = wanted[0]
            found = [needle in text for text in texts]
        else:
            found = [part in text for text, part in zip(texts, wanted, strict=True)]
        return UniformBatch(np.array(found, np.bool_).reshape(num_rows))

    nullable = container.type.nullable or value.type.nullable
    column_type = replace(BOOL, nullable=nullable)
    return site.apply(kernel, column_type, args=(container, value), cost=TEXT_COST)


def _bind_json_contains(site: Site) -> Bound:
    value = site.args[1]
    if value.type.shape:
        raise site.fail(f"CONTAINS looks for one value, not {describe(value.type)}", at=value)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        found = np.zeros(num_rows, np.bool_)
        valid = np.zeros(num_rows, np.bool_)
        pairs = zip(python_values(vectors[0].values), vectors[1].values.tolist(), strict=True)
        for row, (container, wanted) in enumerate(pairs):
            is_text = isinstance(container, str) and isinstance(wanted, str)
            if is_text or isinstance(container, list):
                found[row], valid[row] = wanted in container, True
        return UniformBatch(found, valid)

    return site.apply(kernel, replace(BOOL, nullable=True), cost=JSON_COST, role="contains")


def _bind_per_text(
    change: Callable[..., str],
    *,
    numbers: tuple[int, ...] = (),
    longest: Callable[..., int] | None = None,
    exact: Callable[..., int] | None = None,
) -> Callable[[Site], Bound]:
    """Bind a function of strings, and of integers at the places `numbers`.

    `longest` and `exact` say how long its answers are, where they are longer than the texts.
    """

    def bind(site: Site) -> Bound:
        args: list[Bound] = []
        for place, arg in enumerate(site.args):
            known = required_number(site, arg) if place in numbers else required_text(site, arg)
            if known.type.shape:
                shown = f"{show(arg)} is {describe(arg.type)}"
                raise site.fail(f"one value a row is needed, and {shown}", at=arg)
            if place in numbers and np.dtype(known.type.dtype).kind not in "iu":
                raise site.fail(
                    f"expected an integer, got {describe(arg.type)} ({show(arg)})", at=arg
                )
            args.append(known)

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            columns = [python_values(vector.values) for vector in vectors]
            return UniformBatch(made_texts(change, *columns, longest=longest, exact=exact))

        nullable = any(arg.type.nullable for arg in args)
        return site.apply(kernel, replace(TEXT, nullable=nullable), args=args, cost=TEXT_COST)

    return bind


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return the part from `start`, counted from 1, or from the end where negative.

    As in DuckDB and SQLite, a part may begin before the text: only characters within the text are
    returned. A negative length is that many characters before the start.
    """
    first = start - 1 if start >= 0 else len(text) + start
    if length is None:
        return text[max(first, 0) :]
    low, high = sorted((first, first + length))
    return text[max(low, 0) : max(high, 0)]


def _first_characters(text: str, count: int) -> str:
    """Return `count` characters, or all but the last ones where it is negative."""
    return text[:count]


def _last_characters(text: str, count: int) -> str:
    """Return the last `count` characters, or all but the first ones where it is negative."""
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


def _bind_joined(site: Site) -> Bound:
    """Bind CONCAT: each value as text, and NULL as none."""
    casts = (ast.Cast(arg, "text", span=arg.span) for arg in ast.operands(site.syntax))
    args = [
        arg if arg.type.kind == "text" else site.bind(cast)
        for arg, cast in zip(site.args, casts, strict=True)
    ]

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        columns: list[list[str]] = []
        for vector in vectors:
            texts = python_values(vector.values)
            if vector.valid is not None:
                texts = [text if ok else "" for text, ok in zip(texts, vector.valid, strict=True)]
            columns.append(texts)
        made = made_texts(_joined, *columns, longest=_sum, exact=_sum_of_lengths)
        return UniformBatch(made)

    cost = TEXT_COST * len(args)
    return site.apply(kernel, replace(TEXT, nullable=False), args=args, strict=False, cost=cost)


def _joined(*texts: str) -> str:
    return "".join(texts)


def _sum(*lengths: int) -> int:
    return sum(lengths)


def _sum_of_lengths(*texts: str) -> int:
    return sum(map(len, texts))


def _replaced(text: str, old: str, new: str) -> str:
    """Return a text with a part replaced; an empty part is nowhere, as in DuckDB and SQLite."""
    return text.replace(old, new) if old else text


def _longest_replaced(text: int, _old: int, new: int) -> int:
    return text * max(new, 1)


def _length_replaced(text: str, old: str, new: str) -> int:
    return len(text) + (text.count(old) * max(len(new) - len(old), 0) if old else 0)


def _bind_split(site: Site) -> Bound:
    operand, separator = (required_text(site, arg) for arg in site.args)
    if not isinstance(separator, Constant) or not separator.value or separator.type.shape:
        raise site.fail("SPLIT needs a separator, one known beforehand", at=separator)
    mark = str(separator.value)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        texts = python_values(vectors[0].values)
        charge(sum(text.count(mark) + 1 for text in texts) * PART_NBYTES + objects_nbytes(texts))
        parts = [text.split(mark) for text in texts]
        return texts_vector(parts, vectors[0].valid)

    column_type = replace(TEXTS, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand, separator), cost=2 * TEXT_COST)


def _bind_keys(site: Site) -> Bound:
    operand = site.args[0]
    if operand.type.kind != "json":
        raise site.fail(
            f"KEYS takes a JSON value, and {show(operand)} is {describe(operand.type)}", at=operand
        )

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        found = [
            list(cast("dict[str, object]", each)) if isinstance(each, dict) else None
            for each in python_values(vectors[0].values)
        ]
        valid = np.array([each is not None for each in found], np.bool_)
        return texts_vector([each or [] for each in found], valid)

    return site.apply(kernel, replace(TEXTS, nullable=True), cost=JSON_COST)


def texts_vector(parts: Sequence[Sequence[str]], valid: BoolArray | None) -> Vector:
    """Return lists of texts as arrays of text."""
    flat = object_array([text for each in parts for text in each])
    shapes = np.array([len(each) for each in parts], np.int64).reshape(-1, 1)
    return RaggedBatch(flat, shapes, valid)


def _bind_equals(site: Site) -> Bound:
    return bind_compare(site, "=")


FUNCTIONS = (
    Function("TRIM", "TRIM(text)", "Text without spaces around it.", (1, 1), _bind_case(str.strip)),
    Function(
        "SUBSTR",
        "SUBSTR(text, start, length)",
        "A part of a text, counted from 1, or from the end where negative.",
        (2, 3),
        _bind_per_text(_substring, numbers=(1, 2)),
    ),
    Function(
        "REPLACE",
        "REPLACE(text, old, new)",
        "Text with one part replaced by another.",
        (3, 3),
        _bind_per_text(_replaced, longest=_longest_replaced, exact=_length_replaced),
    ),
    Function(
        "LEFT",
        "LEFT(text, n)",
        "The first n characters; all but the last ones where n is negative.",
        (2, 2),
        _bind_per_text(_first_characters, numbers=(1,)),
    ),
    Function(
        "RIGHT",
        "RIGHT(text, n)",
        "The last n characters; all but the first ones where n is negative.",
        (2, 2),
        _bind_per_text(_last_characters, numbers=(1,)),
    ),
    Function(
        "CONCAT",
        "CONCAT(x, …)",
        "Values as text, one after another; NULL adds nothing.",
        (1, 64),
        _bind_joined,
    ),
    Function("SPLIT", "SPLIT(text, separator)", "The parts of a text.", (2, 2), _bind_split),
    Function("KEYS", "KEYS(json)", "The keys of a JSON object.", (1, 1), _bind_keys),
    Function("EQUALS", "EQUALS(a, b)", "Are both equal, as a = b.", (2, 2), _bind_equals),
    Function("LOWER", "LOWER(text)", "Text in lower case.", (1, 1), _bind_case(str.lower)),
    Function("UPPER", "UPPER(text)", "Text in upper case.", (1, 1), _bind_case(str.upper)),
    Function(
        "CONTAINS",
        "CONTAINS(x, value)",
        "Is the value a part of the text, or an element of the array.",
        (2, 2),
        _bind_contains,
    ),
)
