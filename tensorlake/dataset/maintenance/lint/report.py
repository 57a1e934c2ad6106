"""Findings of a lint, each with its rows and the query that finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from tensorlake.quantities import plural

__all__ = ["SEVERITIES", "LintFinding", "LintReport", "Severity"]

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
ROWS_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class LintFinding:
    """Rows that look wrong for one reason.

    Example:
        >>> import numpy as np, tensorlake as tl
        >>> ds = tl.create("memory://doc-lint-finding", {"x": "float32"})
        >>> ds.extend({"x": [1, np.nan, 3]})
        >>> ds.lint()[0]
        error not-finite: 'x' has NaN or infinity, row 1
            WHERE x - x != 0
            correct the values, or declare the tensor nullable=True and store NULL
        >>> ds.discard()

    Attributes:
        rule: Name of the rule that found it.
        severity: "error": the values cannot be right; "warning": they rarely are; "note": worth
            knowing.
        what: The defect, as it follows the name of the column.
        column: The tensor.
        rows: Row numbers in the version, int64, ascending; at most the first 10,000.
        count: Number of rows.
        query: TQL that finds the rows in what was linted; of rows that no condition describes, it
            names them by their numbers, as many as `rows` has.
        remedy: How to correct the rows.
    """

    rule: str
    severity: Severity
    what: str
    column: str
    rows: npt.NDArray[np.int64]
    count: int
    query: str
    remedy: str

    def __repr__(self) -> str:
        numbers = ", ".join(map(str, self.rows[:ROWS_SHOWN].tolist()))
        more = ", …" if self.count > ROWS_SHOWN else ""
        which = "row" if self.count == 1 else f"{self.count:,} rows:"
        query = self.query if len(self.query) <= 160 else f"{self.query[:160]}…"  # noqa: PLR2004 - two lines of a terminal
        return (
            f"{self.severity} {self.rule}: {self.column!r} {self.what}, {which} {numbers}{more}"
            f"\n    {query}\n    {self.remedy}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class LintReport(Sequence[LintFinding]):
    """The findings of a lint, the gravest first; prints as a summary and the findings.

    Attributes:
        url: URL of the dataset.
        version: The version that was read.
        num_rows: Number of rows read.
        rules: Names of the rules that were applied.
        findings: The findings.
    """

    url: str
    version: str
    num_rows: int
    rules: tuple[str, ...]
    findings: tuple[LintFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, index: int) -> LintFinding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LintFinding, ...]: ...
    def __getitem__(self, index: int | slice) -> LintFinding | tuple[LintFinding, ...]:
        return self.findings[index]

    def __iter__(self) -> Iterator[LintFinding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        verdict = plural(len(self), "finding") if self else "nothing found"
        rules, rows = plural(len(self.rules), "rule"), plural(self.num_rows, "row")
        lines = [f"{self.url} {self.version}: {verdict} · {rows} · {rules}"]
        lines += [f"  {line}" for one in self for line in repr(one).splitlines()]
        return "\n".join(lines)
