"""Conditions of Arrow (``pyarrow.compute.Expression``) as TQL, where both mean the same.

pyarrow exposes an expression only as text, where types and some values are ambiguous. So the parsed
text is converted back to an Arrow expression, and used only if that equals the original: a misread
text has no effect. Conditions that TQL cannot express give None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorlake.quantities import is_whole_number
from tensorlake.types import ClassLabel, SampleType, holds_floats, widened_dtype

if TYPE_CHECKING:
    import tensorlake_query as tql

__all__ = ["translate"]

Arrow = Any  # pyarrow ships no types

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf))(?![\w.:-])
    | (?P<set>is_in\((?P<set_of>[^\s(){},"]+),\ \{value_set=[^:]+:\[(?P<values>.*?)\n\],
          \ null_matching_behavior=MATCH\}\))
    | (?P<null>is_null\((?P<null_of>[^\s(){},"]+),\ \{nan_is_null=false\}\))
    | (?P<valid>is_valid\((?P<valid_of>[^\s(){},"]+)\))
    | (?P<known>if_else\(is_valid\((?P<known_of>[^\s(){},"]+)\),\ (?=is_in))
    | (?P<unknown>,\ null\[bool\]\))
    | (?P<not>invert\()
    | (?P<operator>==|!=|<=|>=|<|>)
    | (?P<word>[^\s(){},"]+)
    | (?P<open>\()
    | (?P<close>\))
    )""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class _Both:
    """One condition in both languages; of Arrow's literals the types are still to be tried."""

    tql: tql.ast.Expr
    arrow: Callable[[Callable[[str, Any], Arrow]], Arrow]
    is_exact: bool = True  # whether the literals are values that their columns can hold


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """TQL cannot express the text."""


def translate(
    condition: Arrow, types: Mapping[str, SampleType], schema: Arrow
) -> tql.ast.Expr | None:
    """Return a TQL condition that holds for the same rows; None where there is none."""
    try:
        read = _Reader(str(condition), types).whole()
    except _Unreadable:
        return None
    import pyarrow as pa

    def of_column(name: str, value: Any) -> Arrow:
        kind = schema.field(name).type
        return pa.scalar(value, kind.value_type if pa.types.is_dictionary(kind) else kind)

    def of_python(name: str, value: Any) -> Arrow:
        del name
        return pa.scalar(value)

    def of_float(name: str, value: Any) -> Arrow:
        del name
        return pa.scalar(float(value), pa.float64())  # whose text may be that of an integer

    for literal in (of_column, of_python, of_float):
        if literal is not of_column and not read.is_exact:
            continue  # Arrow would compare in a wider type, and TQL in the column's
        try:
            again = read.arrow(literal)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            continue
        if condition.equals(again):
            return read.tql
    return None


class _Reader:
    """Reads the text of an expression, token by token."""

    def __init__(self, text: str, types: Mapping[str, SampleType]) -> None:
        self._types = types
        self._tokens: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _Unreadable(text[at:])
            self._tokens.append(found)
            at = found.end()
        self._at = 0

    def whole(self) -> _Both:
        read = self._condition()
        if self._at < len(self._tokens):
            raise _Unreadable
        return read

    def _next(self, *kinds: str) -> re.Match[str]:
        if self._at == len(self._tokens) or self._tokens[self._at].lastgroup is None:
            raise _Unreadable
        token = self._tokens[self._at]
        if kinds and not any(token[kind] is not None for kind in kinds):
            raise _Unreadable(token[0])
        self._at += 1
        return token

    def _condition(self) -> _Both:
        from tensorlake_query import ast

        pc = _compute()

        token = self._next()
        if token["open"]:
            return self._inside()
        if token["not"]:
            inner = self._condition()
            self._next("close")
            return _Both(ast.Not(inner.tql), lambda literal: ~inner.arrow(literal), inner.is_exact)
        if token["known"]:  # how DuckDB says that a NULL is in no set
            inner = self._condition()
            self._next("unknown")
            name = self._known(token["known_of"])
            return _Both(
                inner.tql,
                lambda literal: pc.if_else(
                    pc.field(name).is_valid(), inner.arrow(literal), _null_bool()
                ),
                inner.is_exact,
            )
        if token["set"]:
            return self._membership(token["set_of"], token["values"])
        if token["null"] or token["valid"]:
            name = self._known(token["null_of"] or token["valid_of"])
            is_null = ast.IsNull(ast.Column(name))
            if token["null"]:
                return _Both(is_null, lambda _: pc.field(name).is_null())
            return _Both(ast.Not(is_null), lambda _: pc.field(name).is_valid())
        name = self._known(token["word"] or "", kinds=("bool",))
        return _Both(
            ast.Compare("=", ast.Column(name), ast.Literal(value=True)), lambda _: pc.field(name)
        )

    def _inside(self) -> _Both:
        """Parse the content of parentheses: a comparison, or conditions joined by a keyword."""
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        if following is not None and following["operator"]:
            return self._comparison()
        left = self._condition()
        joined = self._next("word")["word"]
        right = self._condition()
        self._next("close")
        is_exact = left.is_exact and right.is_exact
        from tensorlake_query import ast

        if joined == "and":
            return _Both(
                ast.And((left.tql, right.tql)),
                lambda literal: left.arrow(literal) & right.arrow(literal),
                is_exact,
            )
        if joined == "or":
            return _Both(
                ast.Or((left.tql, right.tql)),
                lambda literal: left.arrow(literal) | right.arrow(literal),
                is_exact,
            )
        raise _Unreadable(joined)

    def _comparison(self) -> _Both:
        from tensorlake_query import ast

        pc = _compute()

        name = self._known(self._next("word")["word"])
        sign = self._next("operator")["operator"]
        value = self._value(self._next())
        self._next("close")
        held = self._held(name, value, sign)
        operator: Any = _OPERATORS[sign]

        def arrow(literal: Callable[[str, Any], Arrow]) -> Arrow:
            field, scalar = pc.field(name), literal(name, value)
            match sign:
                case "==":
                    return field == scalar
                case "!=":
                    return field != scalar
                case "<":
                    return field < scalar
                case "<=":
                    return field <= scalar
                case ">":
                    return field > scalar
                case _:
                    return field >= scalar

        condition = ast.Compare(operator, ast.Column(name), ast.Literal(held))
        return _Both(condition, arrow, held == value)

    def _membership(self, name: str, text: str) -> _Both:
        import pyarrow as pa

        from tensorlake_query import ast

        pc = _compute()

        self._known(name)
        try:
            values = json.loads(f"[{text}]")
        except ValueError as error:
            raise _Unreadable(text) from error
        if not values:
            raise _Unreadable(text)
        held = [self._held(name, value, "==") for value in values]

        def arrow(literal: Callable[[str, Any], Arrow]) -> Arrow:
            scalars = [literal(name, value) for value in values]
            return pc.field(name).isin(pa.array(scalars, scalars[0].type))

        items = tuple(ast.Literal(value) for value in held)
        return _Both(ast.InList(ast.Column(name), items), arrow, held == values)

    def _value(self, token: re.Match[str]) -> Any:
        if token["string"]:
            try:
                return json.loads(token["string"])
            except ValueError as error:
                raise _Unreadable(token[0]) from error
        if token["number"] and "inf" not in token["number"]:
            text = token["number"]
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if token["word"] in {"true", "false"}:
            return token["word"] == "true"
        raise _Unreadable(token[0])

    def _known(self, name: str, *, kinds: tuple[str, ...] = ()) -> str:
        """Check that a query sees the column as Arrow does: one number, truth, name or text."""
        found = self._types.get(name)
        if found is None or found.shape or not _is_plain(found):
            raise _Unreadable(name)
        if kinds and found.query_kind not in kinds:
            raise _Unreadable(name)
        return name

    def _held(self, name: str, value: Any, sign: str) -> Any:
        """Return a literal as the column would hold it; of floats that is the nearest."""
        found = self._types[name]
        is_integer = is_whole_number(value)
        match found.query_kind:
            case "number" if found.dtype is not None and holds_floats(found.dtype):
                if is_integer or isinstance(value, float):
                    return float(widened_dtype(found.dtype).type(value))
            case "number" if is_integer:
                return value
            case "bool" if isinstance(value, bool):
                return value
            case "text" if isinstance(value, str):
                return value
            case "label" if isinstance(found, ClassLabel) and sign in {"==", "!="}:
                if value in found.known_names:
                    return value
            case _:
                pass
        raise _Unreadable(name)


def _is_plain(sample_type: SampleType) -> bool:
    is_scalar = sample_type.kind in {"scalar", "bool", "class_label", "text"}
    return is_scalar and sample_type.query_kind in {"number", "bool", "label", "text"}


def _null_bool() -> Arrow:
    import pyarrow as pa

    return pa.scalar(None, pa.bool_())


def _compute() -> Arrow:
    from pyarrow import compute

    return compute
