"""Rules: named functions from a view to the rows of it that they suspect.

A rule that comes in a package of its own is a `LintRule` with an entry point in the group
``tensorlake.lint``, whose name is the rule's (docs/how-to/lint-a-dataset.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from tensorlake.dataset.core.rowset import HasRows
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.types import loaded_plug_in

if TYPE_CHECKING:
    from tensorlake.dataset.maintenance.lint.report import Severity
    from tensorlake.types import SampleType

__all__ = ["GROUP", "LintRule", "Linted", "Suspect", "plug_ins"]

GROUP = "tensorlake.lint"


class Linted(HasRows, Protocol):
    """The argument of a rule: a `View`, whose queries have the limits of the lint."""

    @property
    def schema(self) -> Mapping[str, SampleType]:
        """The types of the columns."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any:
        """Read a column, a row, or other rows."""
        ...

    def query(self, tql: str, /) -> Any:
        """Run a query over the rows."""
        ...

    def where(self, condition: str, /) -> Any:
        """Select rows by a condition."""
        ...


@dataclass(frozen=True, slots=True)
class Suspect:
    """Rows of a column that a rule suspects; it counts if there are any.

    Attributes:
        column: The tensor.
        what: The defect, as it follows the name of the column: "has NaN".
        condition: TQL that is true for the rows; "" where none describes them.
        remedy: How to correct the rows.
        severity: "error", "warning" or "note".
        rows: Positions in the view, ascending; None: those that meet the condition.

    Example:
        >>> import tensorlake as tl
        >>> tl.Suspect("caption", "is short", "LENGTH(caption) < 10", "write a sentence").severity
        'warning'
    """

    column: str
    what: str
    condition: str
    remedy: str
    severity: Severity = "warning"
    rows: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class LintRule:
    """A named check of a dataset's content.

    Attributes:
        name: Its name: words in lower case, joined by dashes.
        summary: Its findings, in one line.
        find: Takes a `View` and yields what it suspects; it may read what it needs, in parts.

    Example:
        >>> import tensorlake as tl
        >>> rule = tl.LintRule(
        ...     "short-captions",
        ...     "captions of fewer than ten characters",
        ...     lambda view: [
        ...         tl.Suspect("caption", "is short", "LENGTH(caption) < 10", "write a sentence")
        ...     ],
        ... )
        >>> ds = tl.create("memory://doc-lint-rule", {"caption": "str"})
        >>> ds.extend({"caption": ["A dog on a beach", "dog"]})
        >>> [finding.rows.tolist() for finding in ds.lint(rules=[rule])]
        [[1]]
        >>> ds.discard()
    """

    name: str
    summary: str
    find: Callable[[Any], Iterable[Suspect]]  # Any: a View, which stands above this module

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.find):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"LintRule(name={shown(self.name)}, find={shown(self.find)}): a rule has a name,"
                " and a function of a View\ngive both: tl.LintRule('short-captions', '…', find)",
                argument="name" if callable(self.find) else "find",
            )


def plug_ins() -> Iterator[LintRule]:
    """Load the rules that installed packages bring, in the order of their names.

    Raises:
        UnsupportedFeatureError: One cannot be loaded, or is not a rule of its entry point's name.
    """
    for entry_point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        yield _loaded(entry_point)


def _loaded(entry_point: EntryPoint) -> LintRule:
    loaded, where = loaded_plug_in(entry_point, provides=f"the lint rule {entry_point.name!r}")
    if not isinstance(loaded, LintRule):
        raise UnsupportedFeatureError(
            f"{where} is not a LintRule but {loaded!r:.80}\nreport this to its author",
            actual=entry_point.name,
        )
    if loaded.name != entry_point.name:
        raise UnsupportedFeatureError(
            f"{where} is named {loaded.name!r}"
            "\nthe entry point's name must equal the rule's; report this to its author",
            actual=entry_point.name,
        )
    return loaded
