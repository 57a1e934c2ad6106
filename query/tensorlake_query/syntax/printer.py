"""Syntax tree to canonical text: upper-case keywords, `=` for `==`, no needless parenthesis.

`parse(print_query(query)) == query` for every query that `parse` can return.
"""

import re
from collections.abc import Iterable

from tensorlake_query.syntax import ast

# The words that NAME excludes in tql.lark; a test compares the two.
RESERVED = {
    "and", "as", "between", "case", "else", "end", "false", "from", "group", "having", "ilike",
    "in", "is", "like", "limit", "not", "null", "offset", "or", "order", "select", "then", "true",
    "when", "where", "with", "distinct",
}  # fmt: skip

DATE_LENGTH = len("2026-01-01")
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


def print_query(query: ast.Statement) -> str:
    """Return the canonical text of a whole query."""
    return " ".join(part for part in _statement(query) if part) or "SELECT *"


def print_change(change: ast.Change) -> str:
    """Return the canonical text of UPDATE, DELETE or INSERT."""
    table = print_name(change.table.name)
    match change:
        case ast.Update(_, assignments, where):
            shown = ", ".join(f"{print_name(a.name)} = {print_expr(a.value)}" for a in assignments)
            return " ".join(("UPDATE", table, f"SET {shown}{_clause('WHERE', where)}"))
        case ast.Delete(_, where):
            words = ("DELETE FROM", table, _clause("WHERE", where).strip())
            return " ".join(word for word in words if word)
        case ast.Insert(_, names, query):
            columns = f" ({', '.join(print_name(each.name) for each in names)})" if names else ""
            return " ".join(("INSERT INTO", f"{table}{columns}", print_query(query)))


def _statement(query: ast.Statement) -> list[str]:
    tables = ", ".join(f"{print_name(t.name)} AS ({print_query(t.query)})" for t in query.tables)
    return [
        "EXPLAIN ANALYZE" if query.analyze else "EXPLAIN" if query.explain else "",
        f"WITH {tables}" if tables else "",
        *(_set_operation(query) if isinstance(query, ast.SetQuery) else _core(query)),
        f"ORDER BY {', '.join(map(_order_key, query.order_by))}" if query.order_by else "",
        f"ARRANGE BY {_list(query.arrange_by)}" if query.arrange_by else "",
        _sample(query.sample) if query.sample is not None else "",
        _limit(query.limit) if query.limit is not None else "",
        f"OFFSET {print_expr(query.offset)}" if query.offset is not None else "",
    ]


def _core(query: ast.Query) -> list[str]:
    outputs = ", ".join(map(_output, query.select))
    return [
        f"SELECT {_distinct(query.distinct)}{outputs}" if query.select else "",
        f"FROM {_source(query.source)}" if query.source is not None else "",
        _clause("WHERE", query.where).strip(),
        _expand(query.expand) if query.expand is not None else "",
        f"GROUP BY {_list(query.group_by)}" if query.group_by else "",
        _clause("HAVING", query.having).strip(),
        f"UNGROUP BY {_list(query.ungroup_by)}" if query.ungroup_by else "",
    ]


def _set_operation(query: ast.SetQuery) -> list[str]:
    word = f"{query.op} ALL" if query.keeps_all else query.op
    return [_operand(query.left, query, 0), word, _operand(query.right, query, 1)]


def _operand(query: ast.Statement, whole: ast.SetQuery, place: int) -> str:
    """Return one side of a set operation, in parentheses where it would be read otherwise."""
    is_plain = not (
        query.tables or query.order_by or query.arrange_by or query.sample
        or query.limit or query.offset
    )  # fmt: skip
    binds = 3
    if isinstance(query, ast.SetQuery):
        binds = 2 if query.op == "INTERSECT" else 1
    needed = (2 if whole.op == "INTERSECT" else 1) + place
    text = print_query(query)
    return text if is_plain and binds >= needed else f"({text})"


def _distinct(distinct: ast.Distinct | None) -> str:
    if distinct is None:
        return ""
    return f"DISTINCT ON ({_list(distinct.on)}) " if distinct.on else "DISTINCT "


def _source(source: ast.Table | ast.Join) -> str:
    if isinstance(source, ast.Table):
        alias = "" if source.alias is None else f" AS {print_name(source.alias)}"
        version = source.version
        shown = "" if version is None else f" {version.kind} {print_expr(version.value)}"
        return f"{_print(source.source, _PRIMARY)}{shown}{alias}"
    left, right = _source(source.left), _source(source.right)
    if source.using:
        condition = f" USING ({', '.join(map(print_name, source.using))})"
    else:
        condition = "" if source.on is None else f" ON {print_expr(source.on)}"
    word = "" if source.kind == "INNER" else f"{source.kind} "
    return f"{left} {word}JOIN {right}{condition}"


def _clause(word: str, expr: ast.Expr | None) -> str:
    return "" if expr is None else f" {word} {print_expr(expr)}"


def _expand(expand: ast.Expand) -> str:
    overlap = "" if expand.overlap is None else f" OVERLAP {print_expr(expand.overlap)}"
    return f"EXPAND BY {print_expr(expand.before)} {print_expr(expand.after)}{overlap}"


def _sample(sample: ast.Sample) -> str:
    replace = "" if sample.replace is None else f" REPLACE {print_expr(sample.replace)}"
    seed = "" if sample.seed is None else f" SEED {print_expr(sample.seed)}"
    return f"SAMPLE BY {print_expr(sample.weight)}{replace}{seed}"


def _output(output: ast.Output) -> str:
    table = "" if output.table is None else f"{print_name(output.table)}."
    shown = f"{table}*" if isinstance(output.expr, ast.Star) else print_expr(output.expr)
    return shown if output.alias is None else f"{shown} AS {print_name(output.alias)}"


def _order_key(key: ast.OrderKey) -> str:
    direction = " DESC" if key.descending else ""
    nulls = " NULLS FIRST" if key.nulls_first else ""
    approx = "APPROX " if key.is_approximate else ""
    return f"{approx}{print_expr(key.expr)}{direction}{nulls}"


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
        case ast.Column(name, table):
            shown = print_name(name)
            return shown if table is None else f"{print_name(table)}.{shown}", _PRIMARY
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
        case ast.Call():
            return _call(expr), _PRIMARY
        case ast.Moment(text):
            word = "DATE" if len(text) == DATE_LENGTH else "TIMESTAMP"
            return f"{word} {_quoted(text)}", _PRIMARY
        case ast.Interval(text):
            return f"INTERVAL {_quoted(text)}", _PRIMARY
        case ast.Extract(part, operand):
            return f"EXTRACT({part} FROM {print_expr(operand)})", _PRIMARY
        case ast.Subquery(query):
            return f"({print_query(query)})", _PRIMARY
        case ast.Exists(query):
            return f"EXISTS ({print_query(query)})", _PRIMARY
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
        case ast.Between() | ast.InList() | ast.InQuery() | ast.Like() | ast.IsNull():
            return _predicate(expr), _COMPARISON


def _call(expr: ast.Call) -> str:
    shown = ["DISTINCT " * expr.distinct + _argument(arg) for arg in expr.args]
    shown += [f"{each.name} => {print_expr(each.value)}" for each in expr.named]
    over = ""
    if expr.over is not None:
        by = _list(expr.over.partition_by)
        order = ", ".join(map(_order_key, expr.over.order_by))
        parts = (f"PARTITION BY {by}" if by else "", f"ORDER BY {order}" if order else "")
        over = f" OVER ({' '.join(part for part in parts if part)})"
    return f"{expr.name}({', '.join(shown)}){over}"


def _argument(arg: ast.Expr | ast.Star | ast.Weighted) -> str:
    if isinstance(arg, ast.Weighted):
        return f"{print_expr(arg.condition)}: {print_expr(arg.weight)}"
    return "*" if isinstance(arg, ast.Star) else print_expr(arg)


def _predicate(
    expr: ast.Between | ast.InList | ast.InQuery | ast.Like | ast.IsNull,
) -> str:
    subject = _print(expr.operand, _SUM)
    negation = "NOT " if expr.negated else ""
    match expr:
        case ast.Between(_, low, high):
            return f"{subject} {negation}BETWEEN {_print(low, _SUM)} AND {_print(high, _SUM)}"
        case ast.InList(_, items):
            return f"{subject} {negation}IN ({_list(items)})"
        case ast.InQuery(_, query):
            return f"{subject} {negation}IN ({print_query(query)})"
        case ast.Like(_, pattern):
            return f"{subject} {negation}{expr.form} {_print(pattern, _SUM)}"
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


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


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
