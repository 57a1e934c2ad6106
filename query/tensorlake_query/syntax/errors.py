"""The errors of a query: one `QueryError`, five kinds, each pointing at the text.

    QueryError (ValueError)
    ├─ QuerySyntaxError       the text is not TQL
    ├─ QueryNameError         no such tensor, function, class name or parameter
    ├─ QueryTypeError         the parts exist but do not fit together
    ├─ QueryLimitError        too deep, too long, or past its timeout
    └─ QueryUnsupportedError  a clause of TQL that this version does not run

An error renders as its message, the line it happened on, and a marker under the span with the hint:

    [query-name] at line 1, column 7: no tensor or function 'lable'
        WHERE lable = 'cat'
              ^^^^^ did you mean 'label'?   tensors: image, label, boxes
"""

from collections.abc import Iterable
from difflib import get_close_matches

from tensorlake_query.syntax.ast import Span

INDENT = "    "
MAX_LINE = (
    96  # a longer line is shown as a window around the span, so that the marker stays near the eye
)
MAX_MARKER = 60
NOT_RECURSIVE = "name each step: WITH a AS (…), b AS (SELECT … FROM a), c AS (SELECT … FROM b) …"
MAX_NAMES = 12


class QueryError(ValueError):
    """A query that cannot be run, and where in its text."""

    code = "query"

    def __init__(self, message: str, *, text: str, span: Span, hint: str = "") -> None:
        start = min(max(span.start, 0), len(text))
        line_start = text.rfind("\n", 0, start) + 1
        self.message = message
        self.text = text
        self.span = span
        self.hint = hint
        self.line = text.count("\n", 0, start) + 1
        self.column = start - line_start + 1
        super().__init__(self._rendered(line_start, start))

    def _rendered(self, line_start: int, start: int) -> str:
        head = f"[{self.code}] at line {self.line}, column {self.column}: {self.message}"
        line_stop = self.text.find("\n", line_start)
        line = self.text[line_start : line_stop if line_stop >= 0 else len(self.text)]
        marker_start = start - line_start
        marker_stop = max(min(self.span.stop - line_start, len(line)), marker_start + 1)
        marker_length = min(marker_stop - marker_start, MAX_MARKER)
        if len(line) > MAX_LINE:
            line, marker_start = _window(line, marker_start)
        shown = "".join(c if c.isprintable() else " " for c in line)
        marker = " " * marker_start + "^" * marker_length
        return f"{head}\n{INDENT}{shown}\n{INDENT}{marker} {self.hint}".rstrip()


class QuerySyntaxError(QueryError):
    """The text is not TQL."""

    code = "query-syntax"


class QueryNameError(QueryError):
    """The text names a tensor, function, class or parameter that does not exist."""

    code = "query-name"


class QueryTypeError(QueryError):
    """The parts of an expression do not fit together."""

    code = "query-type"


class QueryLimitError(QueryError):
    """The query is too long, nested too deeply, or ran past its timeout."""

    code = "query-limit"


class QueryUnsupportedError(QueryError, NotImplementedError):
    """The text asks for a clause of TQL that this version does not run."""

    code = "query-unsupported"


NEIGHBOURS = {
    "MEAN": "write AVG",
    **{
        part: f"write EXTRACT({part} FROM …)"
        for part in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    },
}
"""Names of functions in NumPy and other dialects of SQL, with their spelling here."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean 'x'?" for the known name closest to `name`, or an empty string."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = get_close_matches(name.casefold(), list(by_folded), n=1, cutoff=cutoff)
    return f"did you mean '{by_folded[found[0]]}'?" if found else ""


def unknown_function(
    name: str, known: Iterable[str], hint: str = "", *, text: str, start: int
) -> QueryNameError:
    """Build the error for a function that there is not, at the place where it is called."""
    return QueryNameError(
        f"no function {name!r}",
        text=text,
        span=Span(start, start + len(name)),
        hint=hint or NEIGHBOURS.get(name.upper()) or nearest(name, known),
    )


def listed(what: str, names: Iterable[str]) -> str:
    """Return "tensors: a, b, c", cut after a dozen names."""
    every = list(names)
    more = f", … {len(every) - MAX_NAMES} more" if len(every) > MAX_NAMES else ""
    return f"{what}: {', '.join(every[:MAX_NAMES])}{more}"


def known_names(name: str, what: str, known: Iterable[str]) -> str:
    """Return the hint for a name that is not known: the nearest, and all there are."""
    names = list(known)
    return joined(nearest(name, names), listed(what, names))


def joined(*parts: str) -> str:
    """Join the non-empty parts of a hint."""
    return "   ".join(part for part in parts if part)


def _window(line: str, marker_start: int) -> tuple[str, int]:
    left = max(0, min(marker_start - MAX_LINE // 3, len(line) - MAX_LINE))
    right = left + MAX_LINE
    prefix = "…" if left else ""
    suffix = "…" if right < len(line) else ""
    return f"{prefix}{line[left:right]}{suffix}", marker_start - left + len(prefix)
