"""Random queries over two small tables, made of random expressions."""

from dataclasses import dataclass

from tests.property.query.random_queries.expressions import Expressions, Words, fill, same

NULLS = (" NULLS FIRST", " NULLS LAST", "")


@dataclass(frozen=True, slots=True)
class Question:
    """One query.

    Attributes:
        words: its text in each dialect.
        names: its columns.
        is_ordered: whether its order is total, so that rows compare as a list.
    """

    words: Words
    names: tuple[str, ...]
    is_ordered: bool


class Asker(Expressions):
    """Draws queries."""

    def question(self) -> Question:
        """Draw one query."""
        kinds = [
            (self._plain, 6), (self._joined, 3), (self._grouped, 4), (self._windowed, 4),
            (self._combined, 2), (self._distinct_on, 1), (self._nested, 1), (self._unnested, 2),
            (self._grouped_join, 2),
        ]  # fmt: skip
        draw = self.random.choices([kind for kind, _ in kinds], [odds for _, odds in kinds])[0]
        self.tables = [""]
        return draw()

    def _key(self, value: Words, kind: str) -> Words:
        """Draw how a value orders rows."""
        direction = self.random.choice(["", " DESC"])
        nulls = self.random.choice(NULLS)
        said = nulls or " NULLS LAST"
        where_null = "DESC" if said == " NULLS FIRST" else "ASC"
        own = f"{{0}}{direction}{said}"
        if kind == "float":
            own = (
                f"(({{0}}) IS NULL) {where_null}, COALESCE(isnan(({{0}})::DOUBLE), FALSE), "
                f"{{0}}{direction}"
            )
        return fill(f"{{}}{direction}{nulls}", value, duckdb=own, sqlite=f"{{0}}{direction}{said}")

    def _keys(self, depth: int = 1) -> list[Words]:
        kinds = [self._kind() for _ in range(self.random.randint(1, 3))]
        return [self._key(self.key(kind, depth), kind) for kind in kinds]

    def _order(self, keys: list[Words], last: str) -> Words:
        """Write ORDER BY; ties keep row order in TQL, and are told to the others."""
        written = fill(", ".join(["{}"] * len(keys)), *keys)
        plain = self.random.random() < 0.5
        return Words(
            f" ORDER BY {written.tql}" + ("" if plain else f", {last}"),
            None if written.duckdb is None else f" ORDER BY {written.duckdb}, {last}",
            None if written.sqlite is None else f" ORDER BY {written.sqlite}, {last}",
        )

    def _limit(self) -> Words:
        pick = self.random.random()
        count, offset = self.random.randint(0, 9), self.random.randint(0, 4)
        if pick < 0.4:
            return same("")
        return same(f" LIMIT {count}" + (f" OFFSET {offset}" if pick < 0.7 else ""))

    def _sorted(self, query: Words, order: Words) -> Words:
        """Put a query in the order of its outputs; DuckDB takes no query in their place."""
        inside = "SELECT * FROM ({}){}"
        return fill("{}{}", query, order, duckdb=inside, sqlite=inside)

    def _outputs(self, values: list[Words]) -> tuple[Words, tuple[str, ...]]:
        names = tuple(f"o{number}" for number in range(len(values)))
        written = fill(", ".join(f"{{}} AS {name}" for name in names), *values)
        return written, names

    def _where(self, odds: float = 0.7) -> Words:
        if self.random.random() > odds:
            return same("")
        return fill(" WHERE {}", self.condition(2))

    def _plain(self) -> Question:
        kinds = [self._kind() for _ in range(self.random.randint(1, 3))]
        select, names = self._outputs([self.expr(kind) for kind in kinds])
        where = self._where()
        if self.random.random() < 0.25:
            keys = [self._key(same(name), kind) for name, kind in zip(names, kinds, strict=True)]
            order = fill(" ORDER BY " + ", ".join(["{}"] * len(keys)), *keys)
            words = self._sorted(fill("SELECT DISTINCT {} FROM t{}", select, where),
                                 fill("{}{}", order, self._limit()))  # fmt: skip
            return Question(words, names, is_ordered=True)
        order = self._order(self._keys(), "id")
        parts = (select, where, order, self._limit())
        return Question(fill("SELECT {} FROM t{}{}{}", *parts), names, is_ordered=True)

    def _nested(self) -> Question:
        kinds = [self._kind() for _ in range(2)]
        inner, names = self._outputs([self.expr(kind, 1) for kind in kinds])
        where, order = self._where(), self._order(self._keys(), "id")
        inside = fill("SELECT id, {} FROM t{}{}{}", inner, where, order, self._limit())
        keys = [self._key(same(name), kind) for name, kind in zip(names, kinds, strict=True)]
        outer = self._order(keys, "id")
        test = self.random.choice([f"{names[0]} IS NOT NULL", f"{names[1]} IS NULL", "id > 2"])
        text = f"SELECT {', '.join(names)} FROM ({{}}) WHERE {test}{{}}{{}}"
        outer = Words(outer.tql.removesuffix(", id") + ", id", outer.duckdb, outer.sqlite)
        return Question(fill(text, inside, outer, self._limit()), names, is_ordered=True)

    def _distinct_on(self) -> Question:
        kind = self._kind()
        on, order = self.key(kind), self._order(self._keys(), "id")
        select, names = self._outputs([same("id"), self.expr(self._kind(), 1)])
        template = "SELECT DISTINCT ON ({}) {} FROM t{}{}"
        return Question(fill(template, on, select, self._where(), order, sqlite=None), names,
                        is_ordered=True)  # fmt: skip

    def _joined(self) -> Question:
        self.tables = ["a.", "b."]
        kind = self.random.choice(["INNER", "LEFT", "LEFT", "RIGHT", "FULL", "CROSS"])
        on = same("")
        if kind != "CROSS":
            key = self.random.choice(["int", "float", "text", "bool", "time"])
            name = {"int": "i", "float": "f", "text": "c", "bool": "b", "time": "d"}[key]
            sqlite = None if key == "time" else ""
            sides = [fill(f"{side}.{name}", sqlite=sqlite) for side in "ab"]
            if self.random.random() < 0.4 and key != "bool":
                self.tables = ["a."]
                sides[0] = self.expr(key, 1)
                self.tables = ["b."]
                sides[1] = self.expr(key, 1)
                self.tables = ["a.", "b."]
            elif self.random.random() < 0.3 and kind in {"INNER", "LEFT"} and key != "time":
                return self._using(kind, name)
            on = self._compared("=", sides[0], sides[1], {key})
            if self.random.random() < 0.4:
                on = fill("{} AND {}", on, self._compare(1))
            elif self.random.random() < 0.15:
                on = self._compare(1)
            on = fill(" ON {}", on)
        select, names = self._outputs([self.expr(self._kind(), 1) for _ in range(2)])
        order = self._order(self._keys(), "a.id, b.id")
        # pairs stand in an order that no key says, where a side has none
        order = Words(order.tql.removesuffix(", a.id, b.id") + ", a.id, b.id", order.duckdb,
                      order.sqlite)  # fmt: skip
        text = f"SELECT {{}} FROM t AS a {kind} JOIN u AS b{{}}{{}}{{}}{{}}"
        where = self._where_of_sides() if self.random.random() < 0.5 else self._where(0.4)
        words = fill(text, select, on, where, order, self._limit())
        if order.duckdb is not None and words.duckdb is not None:
            words = Words(
                words.tql,
                words.duckdb.replace(", a.id, b.id", ", a.id NULLS LAST, b.id NULLS LAST"),
                None if words.sqlite is None
                else words.sqlite.replace(", a.id, b.id", ", a.id NULLS LAST, b.id NULLS LAST"),
            )  # fmt: skip
        return Question(words, names, is_ordered=True)

    def _where_of_sides(self) -> Words:
        """Draw conditions that are each about one side of a join, and perhaps one about both."""
        tables, found = self.tables, []
        for sides in self.random.choice([["a."], ["b."], ["a.", "b."], ["b.", "a.", "both"]]):
            self.tables = tables if sides == "both" else [sides]
            found.append(self._compare(1))
        self.tables = tables
        return fill(" WHERE " + " AND ".join(["({})"] * len(found)), *found)

    def _using(self, kind: str, name: str) -> Question:
        merged = Words(name, f"a.{name}", f"a.{name}")
        if kind == "LEFT":  # `b.name` is refused there
            self.tables = ["a."]
        select, names = self._outputs([merged, self.expr(self._kind(), 1)])
        on = Words(
            f"USING ({name})",
            f"ON f_eq(a.{name}, b.{name})" if name == "f" else f"ON a.{name} = b.{name}",
            f"ON a.{name} = b.{name}",
        )
        where = fill(" WHERE {}", self._compare(1))
        order = same(" ORDER BY a.id NULLS LAST, b.id NULLS LAST")
        text = f"SELECT {{}} FROM t AS a {kind} JOIN u AS b {{}}{{}}{{}}"
        return Question(fill(text, select, on, where, order), names, is_ordered=True)

    def _aggregate(self, kind: str) -> tuple[Words, str]:
        value, table = self.expr(kind, 1), self.tables[0]
        choices: list[tuple[Words, str]] = [
            (same("COUNT(*)"), "int"),
            (fill("COUNT({})", value), "int"),
            (fill("COUNT(DISTINCT {})", value), "int"),
        ]
        if kind == "int":
            choices += [
                (fill("SUM({})", value, duckdb="CAST(SUM({}) AS BIGINT)"), "int"),
                (fill("SUM(DISTINCT {})", value, duckdb="CAST(SUM(DISTINCT {}) AS BIGINT)"), "int"),
                (same(f"AVG({table}k)"), "float"),
                (fill("MIN({})", value), "int"),
                (fill("MAX({})", value), "int"),
            ]
        if kind == "float":
            most = "COALESCE(MAX({0}) FILTER (WHERE NOT isnan({0})), MAX({0}))"
            # sums of large integers as floats depend on their order, which is each engine's own
            summed = same(f"{table}f") if self.has_nan else value
            choices += [
                (fill("SUM({})", summed), "float"),
                (fill("AVG({})", summed), "float"),
                (fill("MIN({})", value), "float"),
                (fill("MAX({})", value, duckdb=most), "float"),
            ]
            if not self.has_nan:
                choices += [
                    (Words(f"MEDIAN({table}f)", f"MEDIAN({table}f)", None), "float"),
                    (Words(f"VAR({table}f)", f"var_pop({table}f)", None), "float"),
                ]
        if kind == "time":
            choices += [(fill("MIN({})", value), "time"), (fill("MAX({})", value), "time")]
        if kind == "text":
            choices += [(fill("MIN({})", value), "text"), (fill("MAX({})", value), "text")]
        return self.random.choice(choices)

    def _grouped(self) -> Question:
        number = self.random.randint(0, 2)
        kinds = [self._kind() for _ in range(number)]
        keys = [self.key(kind) for kind in kinds]
        calls = [self._aggregate(self.random.choice(["int", "float", "text", "time"]))
                 for _ in range(self.random.randint(1, 2))]  # fmt: skip
        select, names = self._outputs([*keys, *(call for call, _ in calls)])
        group = same("")
        if keys:
            group = fill(" GROUP BY " + ", ".join(["{}"] * len(keys)), *keys)
        having = same("")
        if keys and self.random.random() < 0.4:
            call, kind = self._aggregate(self.random.choice(["int", "float"]))
            bound = {"int": "1", "float": "0.5", "text": "'a'"}[kind]
            having = fill(" HAVING {}", self._compared(">", call, same(bound), {kind}))
        order, is_ordered = same(""), not keys
        if keys and self.random.random() < 0.8:
            all_kinds = [*kinds, *(kind for _, kind in calls)]
            sorted_by = [
                self._key(same(name), kind) for name, kind in zip(names, all_kinds, strict=True)
            ]
            self.random.shuffle(sorted_by)
            order = fill(" ORDER BY " + ", ".join(["{}"] * len(sorted_by)), *sorted_by)
            order = fill("{}{}", order, self._limit())
            is_ordered = True
        text = fill("SELECT {} FROM t{}{}{}", select, self._where(0.5), group, having)
        return Question(self._sorted(text, order), names, is_ordered)

    def _grouped_join(self) -> Question:
        """Draw groups of pairs: by columns of the right side, of values of the left one, mostly."""
        of_key, of_value = self.random.choices([["b."], ["a.", "b."]], [3, 1])[0], ["a."]
        if self.random.random() < 0.2:
            of_value = ["a.", "b."]
        self.tables = of_key
        columns = self.random.sample(["i", "k", "c", "c", "b", "b"], self.random.randint(1, 2))
        if self.random.random() < 0.15:
            columns.append("f")
        keys = [same(self.random.choice(of_key) + name) for name in columns]
        if self.random.random() < 0.15:
            keys[0] = self.key("int")
        self.tables = of_value
        plain = [
            fill("SUM(a.i)", duckdb="CAST(SUM(a.i) AS BIGINT)"),
            *map(same, ("COUNT(a.i)", "MIN(a.i)", "MIN(a.c)", "AVG(a.k)")),
        ]
        calls = [same("COUNT(*)"), *self.random.sample(plain, 2)]
        if self.random.random() < 0.4:
            calls.append(self._aggregate(self.random.choice(["int", "float", "text"]))[0])
        select, names = self._outputs([*keys, *calls])
        name = self.random.choice("iikkc")
        on = same(f"a.{name} = b.{self.random.choice('ik') if name != 'c' else name}")
        kind = self.random.choice(["INNER", "INNER", "INNER", "LEFT", "FULL"])
        where = same("")
        if self.random.random() < 0.3:
            self.tables = [self.random.choice(["a.", "b."])]
            where = fill(" WHERE {}", self._compare(1))
        group = fill(" GROUP BY " + ", ".join(["{}"] * len(keys)), *keys)
        text = f"SELECT {{}} FROM t AS a {kind} JOIN u AS b ON {{}}{{}}{{}}"
        return Question(fill(text, select, on, where, group), names, is_ordered=False)

    def _unnested(self) -> Question:
        """Draw a query of a row for each item of a list, grouped or not."""
        own = "(SELECT id, i, k, f, c, b, d, UNNEST(r) AS r, generate_subscripts(r, 1) AS p FROM t)"
        table, kind = Words("UNNEST(this, r)", own, None), self._kind()
        if self.random.random() < 0.5:
            where = fill(" WHERE {}", self.random.choice([same("r > 0"), self.condition(1)]))
            select, names = self._outputs([same("r"), self.expr(kind)])
            order = self._order([self._key(same("r"), "int"), *self._keys()], "id, p")
            order = Words(order.tql.removesuffix(", id, p"), order.duckdb, None)
            text = fill("SELECT {} FROM {}{}{}{}", select, table, where, order, self._limit())
            return Question(text, names, is_ordered=True)
        key = self.random.choice([same("r"), self.key(kind)])
        calls = [same("COUNT(*)"), Words("SUM(r)", "CAST(SUM(r) AS BIGINT)", None),
                 same("COUNT(DISTINCT r)"), self._aggregate("int")[0]]  # fmt: skip
        select, names = self._outputs([key, *calls])
        text = "SELECT {} FROM {}{} GROUP BY {}"
        return Question(fill(text, select, table, self._where(0.4), key), names, is_ordered=False)

    def _window(self) -> tuple[Words, str]:
        partition = ""
        parts: list[Words] = []
        if self.random.random() < 0.6:
            parts = [self.key(self._kind())]
            partition = "PARTITION BY {} "
        keys = self._keys()
        by = fill(", ".join(["{}"] * len(keys)), *keys)
        tied = Words(by.tql, by.duckdb and by.duckdb + ", id", by.sqlite and by.sqlite + ", id")
        kind = self.random.choice(["int", "float", "text"])
        value = self.expr(kind, 1)
        step = self.random.randint(0, 3)
        pick = self.random.choice(
            ["ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "FIRST", "SUM", "COUNT", "MIN",
             "MAX", "AVG", "all"]
        )  # fmt: skip
        if pick in {"SUM", "AVG"} and kind == "text":
            pick = "COUNT"
        if pick == "AVG" and kind == "int":
            value = same("k")  # sums of what float64 does not hold depend on their order
        over = f" OVER ({partition}ORDER BY {{}})"
        if pick == "ROW_NUMBER":
            return fill(f"ROW_NUMBER(){over}", *parts, tied, duckdb=f"(ROW_NUMBER(){over} - 1)",
                        sqlite=f"(ROW_NUMBER(){over} - 1)"), "int"  # fmt: skip
        if pick in {"RANK", "DENSE_RANK"}:
            return fill(f"{pick}(){over}", *parts, by), "int"
        if pick in {"LAG", "LEAD"}:
            return fill(f"{pick}({{}}, {step}){over}", value, *parts, tied), kind
        if pick == "FIRST":
            own = f"FIRST_VALUE({{}}){over}"
            return fill(f"FIRST({{}}){over}", value, *parts, tied, duckdb=own, sqlite=own), kind
        if pick == "all":
            over = f" OVER ({partition.strip()})"
            return fill(f"COUNT({{}}){over}", value, *parts), "int"
        if pick == "SUM" and kind == "int":
            return fill(f"SUM({{}}){over}", value, *parts, by,
                        duckdb=f"CAST(SUM({{}}){over} AS BIGINT)"), "int"  # fmt: skip
        made = {"SUM": "float", "AVG": "float", "COUNT": "int"}.get(pick, kind)
        if pick == "MAX" and kind == "float":
            nan = over.replace("{}", "{1}", 1).replace("{}", "{2}") if parts else (
                over.replace("{}", "{1}"))  # fmt: skip
            own = (f"COALESCE(MAX({{0}}) FILTER (WHERE NOT isnan({{0}})){nan}, "
                   f"MAX({{0}}){nan})")  # fmt: skip
        else:
            own = ""
        return fill(f"{pick}({{}}){over}", value, *parts, by, duckdb=own), made

    def _windowed(self) -> Question:
        made = [self._window() for _ in range(self.random.randint(1, 2))]
        select, names = self._outputs([*(words for words, _ in made), same("id")])
        order = same(f" ORDER BY {names[-1]}")
        if self.random.random() < 0.5:
            keys = [
                self._key(same(name), kind) for name, (_, kind) in zip(names, made, strict=False)
            ]
            order = self._order(keys, names[-1])
        text = fill("SELECT {} FROM t{}", select, self._where(0.4))
        words = self._sorted(text, fill("{}{}", order, self._limit()))
        return Question(words, names, is_ordered=True)

    def _combined(self) -> Question:
        kinds = [self._kind() for _ in range(self.random.randint(1, 2))]
        sides: list[Words] = []
        for table in ("t", "u"):
            select, names = self._outputs([self.expr(kind, 1) for kind in kinds])
            sides.append(fill(f"SELECT {{}} FROM {table}{{}}", select, self._where()))
        op = self.random.choice(["UNION", "INTERSECT", "EXCEPT"])
        keeps_all = self.random.random() < 0.4
        sqlite = "" if op == "UNION" or not keeps_all else None
        text = f"{{}} {op}{' ALL' if keeps_all else ''} {{}}"
        order = same("")
        if self.random.random() < 0.6:
            keys = [self._key(same(name), kind) for name, kind in zip(names, kinds, strict=True)]
            order = fill(" ORDER BY " + ", ".join(["{}"] * len(keys)), *keys)
            order = fill("{}{}", order, self._limit())
        words = self._sorted(fill(text, *sides, sqlite=sqlite), order)
        return Question(words, names, is_ordered=bool(order.tql))
