"""Syntax tree to canonical text: upper-case keywords, `=` for `==`, no needless parenthesis.

`parse(print_query(query)) == query` for every query that `parse` can return.
"""

import re
from collections.abc import Iterable

from tensorlake_query import ast

# The words that NAME excludes in tql.lark; a test compares the two.
RESERVED = {
    "and", "as", "between", "case", "else", "end", "false", "from", "group", "having", "ilike",
    "in", "is", "like", "limit", "not", "null", "offset", "or", "order", "select", "then", "true",
    "when", "where",
}  # fmt: skip

_SIMPLE_NAME = re.compile(r"[^\W\d]\w*\Z")

# Binding strength of each form, loosest first; a part that binds less than its place needs gets
# parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _POWER, _POSTFIX, _PRIMARY = range(10)
_STRENGTH = {"+": _SUM, "-": _SUM, "||": _SUM, "^": _POWER}


def is_reserved(word: str) -> bool:
    """Tell whether a word can be a name only in double quotes."""
    return word.lower() in RESERVED


def print_name(name: str) -> str:
    """Return an identifier as it must be written."""
    if _SIMPLE_NAME.match(name) and not is_reserved(name) and name.lower() not in {"array", "cast"}:
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def print_expr(expr: ast.Expr) -> str:
    """Return the canonical text of an expression."""
    return _print(expr, _OR)


def print_query(query: ast.Query) -> str:
    """Return the canonical text of a whole query."""
    clauses = [
        "EXPLAIN" if query.explain else "",
        f"SELECT {', '.join(map(_output, query.select))}" if query.select else "",
        "FROM this" if query.from_this else "",
        f"WHERE {print_expr(query.where)}" if query.where is not None else "",
        f"GROUP BY {_list(query.group_by)}" if query.group_by else "",
        f"HAVING {print_expr(query.having)}" if query.having is not None else "",
        f"ORDER BY {', '.join(map(_order_key, query.order_by))}" if query.order_by else "",
        _limit(query.limit) if query.limit is not None else "",
        f"OFFSET {print_expr(query.offset)}" if query.offset is not None else "",
    ]
    return " ".join(clause for clause in clauses if clause) or "SELECT *"


def _output(output: ast.Output) -> str:
    shown = "*" if isinstance(output.expr, ast.Star) else print_expr(output.expr)
    return shown if output.alias is None else f"{shown} AS {print_name(output.alias)}"


def _order_key(key: ast.OrderKey) -> str:
    direction = " DESC" if key.descending else ""
    nulls = " NULLS FIRST" if key.nulls_first else ""
    return f"{print_expr(key.expr)}{direction}{nulls}"


def _limit(limit: ast.Limit) -> str:
    return f"LIMIT {print_expr(limit.count)}{' PERCENT' if limit.percent else ''}"


def _list(items: Iterable[ast.Expr]) -> str:
    return ", ".join(map(print_expr, items))


def _print(expr: ast.Expr, place: int) -> str:
    text, strength = _form(expr)
    return text if strength >= place else f"({text})"


def _form(expr: ast.Expr) -> tuple[str, int]:
    """Return the text of an expression and how strongly it binds."""
    match expr:
        case ast.Literal(value):
            return _literal(value)
        case ast.Array(items):
            return f"ARRAY[{_list(items)}]", _PRIMARY
        case ast.Column(name):
            return print_name(name), _PRIMARY
        case ast.Parameter(name):
            return f"${name}", _PRIMARY
        case ast.Unary(op, operand):
            inner = _print(operand, _UNARY)
            # '--' would start a comment, and '-1' would become a literal
            is_closed = isinstance(operand, ast.Literal) or inner[0] in "-+"
            return f"{op}({inner})" if is_closed else f"{op}{inner}", _UNARY
        case ast.Binary(op, left, right):
            return _binary(op, left, right)
        case ast.Compare(op, left, right):
            return f"{_print(left, _SUM)} {op} {_print(right, _SUM)}", _COMPARISON
        case ast.And(items):
            return " AND ".join(_print(item, _NOT) for item in items), _AND
        case ast.Or(items):
            return " OR ".join(_print(item, _AND) for item in items), _OR
        case ast.Not(operand):
            return f"NOT {_print(operand, _NOT)}", _NOT
        case ast.Index(operand, items):
            return f"{_print(operand, _POSTFIX)}[{', '.join(map(_item, items))}]", _POSTFIX
        case ast.Call(name, args, named):
            shown = ["*" if isinstance(arg, ast.Star) else print_expr(arg) for arg in args]
            shown += [f"{each.name} => {print_expr(each.value)}" for each in named]
            return f"{name}({', '.join(shown)})", _PRIMARY
        case ast.Cast(operand, type_name):
            return f"CAST({print_expr(operand)} AS {type_name.upper()})", _PRIMARY
        case ast.Case(operand, whens, otherwise):
            head = "CASE" if operand is None else f"CASE {print_expr(operand)}"
            arms = [
                f"WHEN {print_expr(when.condition)} THEN {print_expr(when.result)}"
                for when in whens
            ]
            tail = [] if otherwise is None else [f"ELSE {print_expr(otherwise)}"]
            return " ".join([head, *arms, *tail, "END"]), _PRIMARY
        case ast.Between() | ast.InList() | ast.Like() | ast.IsNull():
            return _predicate(expr), _COMPARISON


def _predicate(expr: ast.Between | ast.InList | ast.Like | ast.IsNull) -> str:
    subject = _print(expr.operand, _SUM)
    negation = "NOT " if expr.negated else ""
    match expr:
        case ast.Between(_, low, high):
            return f"{subject} {negation}BETWEEN {_print(low, _SUM)} AND {_print(high, _SUM)}"
        case ast.InList(_, items):
            return f"{subject} {negation}IN ({_list(items)})"
        case ast.Like(_, pattern):
            word = "ILIKE" if expr.ignore_case else "LIKE"
            return f"{subject} {negation}{word} {_print(pattern, _SUM)}"
        case ast.IsNull():
            return f"{subject} IS {negation}NULL"


def _binary(op: ast.ArithmeticOp, left: ast.Expr, right: ast.Expr) -> tuple[str, int]:
    strength = _STRENGTH.get(op, _PRODUCT)
    if op == "^":  # from right to left; its base is a postfix, its exponent may have a sign
        return f"{_print(left, _POSTFIX)} ^ {_print(right, _UNARY)}", strength
    return f"{_print(left, strength)} {op} {_print(right, strength + 1)}", strength


def _item(item: ast.Expr | ast.Slice | ast.Rest) -> str:
    if isinstance(item, ast.Rest):
        return "..."
    if isinstance(item, ast.Slice):
        start, stop, step = (
            "" if part is None else print_expr(part) for part in (item.start, item.stop, item.step)
        )
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return print_expr(item)


def _literal(value: ast.Scalar) -> tuple[str, int]:
    if value is None:
        return "NULL", _PRIMARY
    if isinstance(value, bool):
        return ("TRUE" if value else "FALSE"), _PRIMARY
    if isinstance(value, str):
        escaped = value.replace("'", "''")
        return f"'{escaped}'", _PRIMARY
    shown = repr(value)
    return shown, _UNARY if shown.startswith("-") else _PRIMARY
