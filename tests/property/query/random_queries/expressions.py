"""Random expressions, each written three times: in TQL, for DuckDB, for SQLite.

    Words(tql, duckdb, sqlite)   one text for each engine; None where an engine has no such thing

What the dialects mean differently is translated, one rule each, so that equal answers are expected:

- NaN: in TQL it equals nothing and is above and below nothing, as NULL is in a group of its own,
  and comes after every number; DuckDB takes it as the largest number. The macros `f_eq` … `f_ge`
  and three sort keys for one say it in DuckDB. SQLite has neither NaN nor division by zero, and is
  asked only where none can arise.
- Integers wrap, `/` divides truly, `//` and `%` round down and give 0 by 0: macros again. SUM is
  exact or an error in both.
- `ROW_NUMBER()` counts from 0, and ties keep the order of the rows: `id` is the last key there.
- Times are asked of DuckDB alone, in its unit, microseconds.
- NULLIF is a CASE; CAST to INT drops fractions; MIN and MAX skip NaN beside numbers.
"""

from dataclasses import dataclass, field
from random import Random

PARTS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE")
NO_VALUE = 12345.625  # a number that no row has
TIMES = (
    "1969-12-31 23:59:59.5",
    "2024-02-29 00:00:00",
    "2026-01-01 12:30:00",
    "2026-01-01 00:00:00",
)
TEXTS = ("", "a", "b", "ab", "B", "ba%", "a_b", "é", "zz")

MACROS = """
CREATE MACRO wrap(h) AS CAST((((h::HUGEINT + 9223372036854775808::HUGEINT)
    % 18446744073709551616::HUGEINT) + 18446744073709551616::HUGEINT)
    % 18446744073709551616::HUGEINT - 9223372036854775808::HUGEINT AS BIGINT);
CREATE MACRO f_eq(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN isnan(a::DOUBLE) OR isnan(b::DOUBLE) THEN FALSE ELSE a = b END;
CREATE MACRO f_ne(a, b) AS NOT f_eq(a, b);
CREATE MACRO f_lt(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN isnan(a::DOUBLE) OR isnan(b::DOUBLE) THEN FALSE ELSE a < b END;
CREATE MACRO f_gt(a, b) AS f_lt(b, a);
CREATE MACRO f_le(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL
    WHEN isnan(a::DOUBLE) OR isnan(b::DOUBLE) THEN FALSE ELSE a <= b END;
CREATE MACRO f_ge(a, b) AS f_le(b, a);
CREATE MACRO floor_div(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN 0
    ELSE wrap(a::HUGEINT // b::HUGEINT
        - CASE WHEN a::HUGEINT % b::HUGEINT <> 0 AND (a < 0) <> (b < 0) THEN 1 ELSE 0 END) END;
CREATE MACRO floor_mod(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL WHEN b = 0 THEN 0
    ELSE CAST(((a::HUGEINT % b::HUGEINT) + b::HUGEINT) % b::HUGEINT AS BIGINT) END;
"""
COMPARED = {"=": "f_eq", "!=": "f_ne", "<": "f_lt", "<=": "f_le", ">": "f_gt", ">=": "f_ge"}


@dataclass(frozen=True, slots=True)
class Words:
    """One expression or clause, as each engine writes it."""

    tql: str
    duckdb: str | None
    sqlite: str | None


def fill(template: str, *parts: Words, duckdb: str | None = "", sqlite: str | None = "") -> Words:
    """Write a template for each engine: `duckdb` and `sqlite` are their own, None for none."""
    texts: list[str | None] = []
    for name, own in (("tql", template), ("duckdb", duckdb), ("sqlite", sqlite)):
        chosen = template if own == "" else own
        inner = [getattr(part, name) for part in parts]
        texts.append(None if chosen is None or None in inner else chosen.format(*inner))
    assert texts[0] is not None
    return Words(texts[0], texts[1], texts[2])


def same(text: str) -> Words:
    """Write the same for each engine."""
    return Words(text, text, text)


@dataclass(slots=True)
class Expressions:
    """Draws expressions over tables `t` (TQL's `this`) and `u` of columns id, i, k, f, c, b, d, r.

    Attributes:
        random: draws.
        has_nan: whether the tables hold NaN, infinities and large integers; SQLite is not asked.
    """

    random: Random
    has_nan: bool
    tables: list[str] = field(default_factory=list)

    def _kind(self) -> str:
        return self.random.choice(["int", "int", "float", "float", "text", "bool", "time"])

    def expr(self, kind: str, depth: int = 2) -> Words:
        """Draw an expression of a kind: int, float, text, bool, time."""
        if depth <= 0 or self.random.random() < 0.25:
            return self._leaf(kind)
        kinds = {"int": self._int, "float": self._float, "text": self._text, "time": self._time}
        return (kinds | {"bool": self.condition})[kind](depth)

    def key(self, kind: str, depth: int = 1) -> Words:
        """Draw an expression to order or group by: TQL refuses a bare constant there."""
        drawn = self.expr(kind, depth)
        return drawn if not drawn.tql.strip("()-'").replace(".", "").isdigit() and not (
            drawn.tql.startswith(("'", "TIMESTAMP '")) and drawn.tql.count("'") == 2
        ) else self._leaf(kind, is_column=True)  # fmt: skip

    def _leaf(self, kind: str, *, is_column: bool = False) -> Words:
        if is_column or kind == "bool" or self.random.random() < 0.75:
            name = {"int": self.random.choice(["i", "k", "i", "id"]), "float": "f", "text": "c",
                    "bool": "b", "time": "d"}[kind]  # fmt: skip
            text = self.random.choice(self.tables) + name
            return Words(text, text, None if kind == "time" else text)
        if kind == "int":
            value = self.random.choice([0, 1, 2, 3, 5])
            return Words(str(value), f"{value}::BIGINT", str(value))
        if kind == "float":
            value = self.random.choice([0.5, 1.25, -2.0, 0.0])
            return Words(f"({value})", f"({value}::DOUBLE)", f"({value})")
        if kind == "time":
            value = f"TIMESTAMP '{self.random.choice(TIMES)}'"
            return Words(value, value, None)
        return same("'" + self.random.choice(TEXTS) + "'")

    def _int(self, depth: int) -> Words:
        def sub(kind: str = "int") -> Words:
            return self.expr(kind, depth - 1)

        def wrapping(op: str) -> Words:
            other = f"wrap({{}}::HUGEINT {op} {{}}::HUGEINT)"
            return fill(f"({{}} {op} {{}})", sub(), self._leaf("int"), duckdb=other)

        divisor = self.random.choice([2, 3, -2, 7])
        choices = [
            lambda: wrapping(self.random.choice("+-")),
            lambda: wrapping("*"),
            lambda: fill("(-{})", sub(), duckdb="wrap(-({}::HUGEINT))"),
            lambda: fill(f"({{}} // {divisor})", sub(), duckdb=f"floor_div({{}}, {divisor})",
                         sqlite=None),
            lambda: fill(f"({{}} % {divisor})", sub(), duckdb=f"floor_mod({{}}, {divisor})",
                         sqlite=None),
            lambda: fill("({} // {})", sub(), sub(), duckdb="floor_div({}, {})", sqlite=None),
            lambda: fill("({} % {})", sub(), sub(), duckdb="floor_mod({}, {})", sqlite=None),
            lambda: fill("LENGTH({})", sub("text")),
            lambda: self._case("int", depth),
            lambda: self._coalesce("int", depth),
            lambda: self._null_if("int", depth),
            lambda: fill("CAST({} AS INT)", sub("float"), duckdb="TRY_CAST(trunc({}) AS BIGINT)",
                         sqlite="CAST({} AS INTEGER)"),
            lambda: self._scalar("int"),
            lambda: fill(f"EXTRACT({self.random.choice(PARTS)} FROM {{}})", sub("time"),
                         sqlite=None),
        ]  # fmt: skip
        return self.random.choice(choices)()

    def _float(self, depth: int) -> Words:
        def sub(kind: str = "float") -> Words:
            return self.expr(kind, depth - 1)

        op = self.random.choice("+-*")
        choices = [
            lambda: fill(f"({{}} {op} {{}})", sub(), self._leaf("float")),
            lambda: fill(f"({{}} {op} {{}})", sub(), self._leaf("int")),
            lambda: fill("({} / {})", sub(), sub(), duckdb="({}::DOUBLE / {}::DOUBLE)",
                         sqlite=None),
            lambda: fill("({} / {})", sub("int"), sub("int"),
                         duckdb="({}::DOUBLE / {}::DOUBLE)", sqlite=None),
            lambda: fill("(-{})", sub()),
            lambda: fill("ABS({})", sub()),
            lambda: fill("FLOOR({})", sub()),
            lambda: fill("CEIL({})", sub()),
            lambda: fill("CAST({} AS FLOAT)", sub("int"), duckdb="CAST({} AS DOUBLE)",
                         sqlite="CAST({} AS REAL)"),
            lambda: self._case("float", depth),
            lambda: self._coalesce("float", depth),
            lambda: self._null_if("float", depth),
            lambda: self._scalar("float"),
        ]  # fmt: skip
        return self.random.choice(choices)()

    def _time(self, depth: int) -> Words:
        def sub() -> Words:
            return self.expr("time", depth - 1)

        part, op = self.random.choice(PARTS).lower(), self.random.choice("+-")
        step = self.random.choice(["1 day", "90 minutes", "2 weeks"])
        choices = [
            lambda: fill(f"DATE_TRUNC('{part}', {{}})", sub(), sqlite=None),
            lambda: fill(f"({{}} {op} INTERVAL '{step}')", sub(), sqlite=None),
            lambda: self._case("time", depth),
            lambda: self._coalesce("time", depth),
            lambda: self._null_if("time", depth),
        ]
        return self.random.choice(choices)()

    def _text(self, depth: int) -> Words:
        def sub(kind: str = "text") -> Words:
            return self.expr(kind, depth - 1)

        start, size = self.random.randint(-3, 3), self.random.randint(-1, 3)
        choices = [
            lambda: fill("({} || {})", sub(), self._leaf("text")),
            lambda: fill("LOWER({})", sub(), sqlite=None),
            lambda: fill("UPPER({})", sub(), sqlite=None),
            lambda: fill("TRIM({})", sub()),
            lambda: fill(f"SUBSTR({{}}, {start}, {size})", sub()),
            lambda: fill("REPLACE({}, 'a', 'bb')", sub()),
            lambda: self._case("text", depth),
            lambda: self._coalesce("text", depth),
            lambda: self._null_if("text", depth),
            lambda: fill("CAST({} AS TEXT)", self.expr("int", depth - 1)),
        ]
        return self.random.choice(choices)()

    def condition(self, depth: int) -> Words:
        """Draw a condition."""
        if depth <= 0:
            return self._compare(0)
        more = depth - 1
        choices = [
            lambda: self._compare(more),
            lambda: self._compare(more),
            lambda: fill("({} AND {})", self.condition(more), self.condition(more)),
            lambda: fill("({} OR {})", self.condition(more), self.condition(more)),
            lambda: fill("(NOT {})", self.condition(more)),
            lambda: fill("({} IS NULL)", self._operand(more)),
            lambda: fill("({} IS NOT NULL)", self._operand(more)),
            lambda: self._between(more),
            lambda: self._among(more),
            lambda: self._like(more),
            lambda: self._in_query(more),
            self._exists,
            lambda: self._case("bool", depth),
            lambda: self._coalesce("bool", depth),
        ]
        return self.random.choice(choices)()

    def _operand(self, depth: int) -> Words:
        return self.expr(self._kind(), depth)

    def _compare(self, depth: int) -> Words:
        op = self.random.choice(list(COMPARED))
        kind = self._kind()
        if kind == "bool":
            op = self.random.choice(["=", "!="])
        left = self.expr(kind, depth)
        other = self.random.choice([kind, "int", "float"]) if kind in {"int", "float"} else kind
        return self._compared(op, left, self.expr(other, depth), {kind, other})

    def _compared(self, op: str, left: Words, right: Words, kinds: set[str]) -> Words:
        plain = f"({{}} {op} {{}})"
        own = f"{COMPARED[op]}({{}}, {{}})" if "float" in kinds else plain
        return fill(plain, left, right, duckdb=own)

    def _between(self, depth: int) -> Words:
        kind = self.random.choice(["int", "float", "text", "time"])
        value, low, high = (self.expr(kind, depth) for _ in range(3))
        negated = self.random.choice(["", "NOT "])
        own = f"({negated}(f_ge({{0}}, {{1}}) AND f_le({{0}}, {{2}})))"
        template = f"({{}} {negated}BETWEEN {{}} AND {{}})"
        return fill(template, value, low, high, duckdb=own if kind == "float" else "")

    def _among(self, depth: int) -> Words:
        kind = self.random.choice(["int", "float", "text"])
        values = {"int": ["0", "1", "2", "7"], "float": ["0.5", "1.25", "0.0", "99.5"],
                  "text": ["'a'", "'ab'", "''", "'q'"]}[kind]  # fmt: skip
        items = self.random.sample(values, self.random.randint(1, 3))
        if self.random.random() < 0.3:
            items.append("NULL")
        negated = self.random.choice(["", "NOT "])
        return fill(f"({{}} {negated}IN ({', '.join(items)}))", self.expr(kind, depth))

    def _like(self, depth: int) -> Words:
        pattern = self.random.choice(["a%", "%b", "_", "%a%", "", "a_b", "%", "B%"])
        negated = self.random.choice(["", "NOT "])
        return fill(f"({{}} {negated}LIKE '{pattern}')", self.expr("text", depth))

    def _in_query(self, depth: int) -> Words:
        kind = self.random.choice(["int", "float", "text"])
        value = self.expr(kind, depth)
        inner, finite = self._inside(kind, depth)
        negated = self.random.choice(["", "NOT "])
        own = f"({{}} {negated}IN ({{}}))"
        made = fill(own, value, inner)
        if made.duckdb is not None and value.duckdb is not None:
            return Words(made.tql, own.format(value.duckdb, finite), made.sqlite)
        return made

    def _inside(self, kind: str, depth: int) -> tuple[Words, str | None]:
        """Draw a query of one column, and the same for DuckDB, whose NaN would equal another."""
        tables, self.tables = self.tables, [""]
        value, where = self.expr(kind, min(depth, 1)), self.condition(1)
        if self.random.random() < 0.3:
            where = fill("({} AND id < 0)", where)  # of no rows
        self.tables = tables
        inner = fill("SELECT {} AS v FROM u WHERE {}", value, where)
        finite = inner.duckdb
        if kind == "float" and finite is not None:
            finite = f"SELECT CASE WHEN isnan(v) THEN {NO_VALUE} ELSE v END AS v FROM ({finite})"
        return inner, finite

    def _exists(self) -> Words:
        tables, self.tables = self.tables, [""]
        where = self.condition(1)
        self.tables = tables
        return fill("(EXISTS (SELECT * FROM u WHERE {}))", where)

    def _scalar(self, kind: str) -> Words:
        tables, self.tables = self.tables, [""]
        where = self.condition(1)
        self.tables = tables
        name = {"int": "k", "float": "f"}[kind]
        return fill(f"(SELECT MIN({name}) AS v FROM u WHERE {{}})", where)

    def _case(self, kind: str, depth: int) -> Words:
        more = depth - 1
        arms = [fill("WHEN {} THEN {}", self.condition(more), self.expr(kind, more))
                for _ in range(self.random.randint(1, 2))]  # fmt: skip
        if self.random.random() < 0.6:
            arms.append(fill("ELSE {}", self.expr(kind, more)))
        return fill("CASE " + " ".join(["{}"] * len(arms)) + " END", *arms)

    def _coalesce(self, kind: str, depth: int) -> Words:
        return fill("COALESCE({}, {})", self.expr(kind, depth - 1), self.expr(kind, depth - 1))

    def _null_if(self, kind: str, depth: int) -> Words:
        a, b = self.expr(kind, depth - 1), self._leaf(kind)
        equal = self._compared("=", a, b, {kind})
        return fill("CASE WHEN {} THEN NULL ELSE {} END", equal, a)
