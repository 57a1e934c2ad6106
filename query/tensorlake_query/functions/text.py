"""Text: LOWER, UPPER, TRIM, SUBSTR, REPLACE, SPLIT, CONTAINS."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query import ast
from tensorlake_query.bound import Bound
from tensorlake_query.conversions import JSON_COST, is_text_constant
from tensorlake_query.functions.operators import TEXT_COST, required_text
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.source import UniformBatch
from tensorlake_query.types import BOOL, TEXT, describe
from tensorlake_query.vectors import Vector, object_array, python_values


def _bind_case(change: Callable[[str], str]) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        operand = required_text(site, site.args[0])

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return UniformBatch(object_array(list(map(change, python_values(vectors[0].values)))))

        column_type = replace(TEXT, nullable=operand.type.nullable)
        return site.apply(kernel, column_type, args=(operand,), cost=TEXT_COST)

    return bind


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

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
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

    return site.apply(kernel, replace(BOOL, nullable=True), cost=JSON_COST)


FUNCTIONS = (
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
