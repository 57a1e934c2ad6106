"""Columns whose samples are stored in parts: an expression reads the parts that it needs.

mask[0, 10:20]                    the region
ANY(mask = 3), ARRAY_MAX(mask)    the distinct elements, which a source may have recorded

A step that needs whole samples of a column anyway reads these once, for all of its expressions.
"""

from collections.abc import Collection
from functools import partial

from msgspec import structs

from tensorlake_query.planning.plan import Plan, Project, expressions, rewritten, with_expressions
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant, PartRef, walk_bound
from tensorlake_query.values.source import Region

OF_DISTINCT = frozenset({"any", "all", "min", "max"})  # the same, however often an element occurs
OF_ELEMENTS = frozenset({"compare", "and", "or", "not"})  # of each for itself


def read_parts(plan: Plan) -> Plan:
    """Read regions, and distinct elements, of columns in parts instead of whole samples."""
    return rewritten(plan, _read_parts)


def _read_parts(step: Plan) -> Plan:
    """Read parts of the columns of which no expression of the step needs whole samples."""
    whole: set[str] = set()
    for expr in expressions(with_expressions(step, _in_parts)):
        is_passed_on = isinstance(step, Project) and isinstance(expr, ColumnRef)
        if not is_passed_on:
            whole |= {node.name for node in walk_bound(expr) if isinstance(node, ColumnRef)}
    return with_expressions(step, partial(_in_parts, whole=whole))


def _in_parts(expr: Bound, *, whole: Collection[str] = ()) -> Bound:
    if not isinstance(expr, Apply):
        return expr
    column = expr.args[0] if expr.role == "index" else None
    if isinstance(column, ColumnRef) and column.type.is_parted and column.name not in whole:
        region = _region(expr)
        return expr if region is None else PartRef(column.name, region, expr)
    if expr.role in OF_DISTINCT and len(expr.args) == 1 and _is_of_elements(expr.args[0], whole):
        return structs.replace(expr, args=(_of_distinct(expr.args[0]),))
    args = tuple(_in_parts(one, whole=whole) for one in expr.args)
    is_same = all(made is one for made, one in zip(args, expr.args, strict=True))
    return expr if is_same else structs.replace(expr, args=args)  # scores are kept by expression


def _region(expr: Apply) -> Region | None:
    """Return the indices of an `x[...]`; None where they are computed for each row."""
    assert isinstance(expr.syntax, ast.Index), "it has the role"
    given: list[int] = []
    for bound in expr.args[1:]:
        if not isinstance(bound, Constant) or type(bound.value) is not int:
            return None
        given.append(bound.value)
    values = iter(given)
    region: list[object] = []
    for item in expr.syntax.items:
        match item:
            case ast.Rest():
                region.append(...)
            case ast.Slice(start, stop, step):
                parts = (None if one is None else next(values) for one in (start, stop, step))
                region.append(slice(*parts))
            case _:
                region.append(next(values))
    return tuple(region)


def _is_of_elements(expr: Bound, whole: Collection[str]) -> bool:
    """Whether an expression computes each element from one of a column in parts, and constants."""
    match expr:
        case ColumnRef(name, column_type):  # kernels expect fixed sizes as they are declared
            return column_type.is_parted and not any(column_type.shape) and name not in whole
        case Constant(type=column_type):
            return not column_type.shape
        case Apply(role=role, syntax=syntax, args=args):
            is_pointwise = role in OF_ELEMENTS or syntax is None
            columns = [one for one in args if not isinstance(one, Constant)]
            return (
                is_pointwise and bool(columns) and all(_is_of_elements(one, whole) for one in args)
            )
        case _:
            return False


def _of_distinct(expr: Bound) -> Bound:
    if isinstance(expr, ColumnRef):
        return PartRef(expr.name, None, expr)
    if isinstance(expr, Apply):
        return structs.replace(expr, args=tuple(map(_of_distinct, expr.args)))
    return expr
