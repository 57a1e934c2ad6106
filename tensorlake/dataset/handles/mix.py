"""``tl.mix``: several datasets or views streamed as one, each with a weight.

    web  ─ 0.6 ─┐
    code ─ 0.3 ─┼─► one order, whatever the number of ranks ─► ds.torch(), .jax(), .loader()
    wiki ─ 0.1 ─┘

Any section of the order holds the weights to within a few rows (docs/reference/plan.md). Batches
have ``_source``, the number of each row's source, and ``_row``, its row there. Each source gives
all its rows before one of them again, in epochs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn, cast, get_args

import numpy as np

from tensorlake.dataset.core.rowset import rowset_of
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.display.hints import no_such
from tensorlake.dataset.display.signatures import shows_methods
from tensorlake.dataset.handles import batches
from tensorlake.dataset.handles.dataset import View
from tensorlake.dataset.handles.rows import Rows, repin_of
from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader import (
    Framework,
    Loader,
    MixRows,
    MixSource,
    MixStop,
    Weight,
    check_columns,
    check_weights,
    common_columns,
    make_loader,
    token_column,
)

__all__ = ["Mix", "mix"]

PAIR = 2
SHOWN_ITEMS = 3
BRIEF_DEPTH = 3


@shows_methods
class Mix:
    """Several sources as one stream; made by ``tl.mix``.

    Attributes:
        sources: The views mixed, by name, as they were when the mix was made.
        weights: Their weights.
        stop: When an epoch ends.
        by: The unit of the weights: rows or tokens.
    """

    def __init__(
        self,
        given: Mapping[str, Rows],
        weights: Mapping[str, Weight],
        stop: MixStop,
        by: Literal["rows", "tokens"] = "rows",
    ) -> None:
        self.sources = {name: View(rowset_of(one)) for name, one in given.items()}
        self.weights = dict(weights)
        self.stop: MixStop = stop
        self.by: Literal["rows", "tokens"] = by
        self._given = dict(given)

    torch, jax = batches.torch, batches.jax
    tensorflow, loader = batches.tensorflow, batches.loader

    @property
    def names(self) -> tuple[str, ...]:
        """The sources' names; ``_source`` of a batch is an index into them."""
        return tuple(self.sources)

    def __len__(self) -> int:
        if self.stop == "never":
            raise TypeError("a mix with stop='never' has no length\ngive stop='first' or 'all'")
        return self._rows().num_places

    def __repr__(self) -> str:
        lines = [f"Mix of {len(self.sources)} sources, by {self.by}, stop={shown(self.stop)}"]
        for name, view in self.sources.items():
            weight = self.weights[name]
            described = "a function" if callable(weight) else f"{weight:g}"
            lines.append(
                f"  {name}  {described}  {len(view):,} rows of {view.url!r} {view.version}"
            )
        return "\n".join(lines)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such(self, name)

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework."""
        rows = self._rows()
        known, chosen = rows.selection.columns, arguments.get("columns")
        names = known if chosen is None else expand_names(chosen, known)
        check_columns(rows.sources, [name for name in names if not name.startswith("_")])
        remake = partial(_made_again, self, framework, arguments)
        return make_loader(rows, framework=framework, remake=remake, **arguments)

    def _rows(self) -> MixRows:
        sources = [
            MixSource(name, rows.selection, rows.reader(), repin_of(self._given[name]))
            for name, rows in ((name, rowset_of(view)) for name, view in self.sources.items())
        ]
        weights, tokens = tuple(self.weights.values()), None
        if self.by == "tokens":
            tokens = token_column(sources[0], common_columns(sources))
        return MixRows(tuple(sources), weights, self.stop, tokens=tokens)


def mix(
    sources: Mapping[str, tuple[Rows, Weight]],
    *,
    by: Literal["rows", "tokens"] = "rows",
    stop: MixStop = "first",
) -> Mix:
    """Mix datasets or views into one stream, each with a weight.

    Args:
        sources: By name, a dataset or view and its weight: a number above 0, or a function of the
            position in the order (called at every 65,536th), which needs ``stop="never"``.
        by: Unit of the weights. Shares of tokens are those of the column "tokens", or of the only
            lists of integers: each weight is divided by the source's mean length, which is read
            from the headers of its chunks.
        stop: An epoch ends when the first source has given all its rows, when each has given
            them at least once, or never.

    Raises:
        InvalidInputError: A weight, a source or a keyword is invalid.

    Example:
        >>> import tensorlake as tl
        >>> web, code = (tl.create(f"memory://doc-{n}", {"x": "int64"}) for n in ("web", "code"))
        >>> web.extend({"x": range(300)}); code.extend({"x": range(100)})
        >>> mixed = tl.mix({"web": (web, 0.75), "code": (code, 0.25)})
        >>> len(mixed)
        399
        >>> next(iter(mixed.loader(batch_size=8)))["_source"]
        array([0, 0, 0, 0, 1, 0, 1, 0])
    """
    if not isinstance(by, str) or by not in ("rows", "tokens"):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(
            f"by is 'rows' or 'tokens', got {shown(by)}", argument="by", actual=by
        )
    if not isinstance(stop, str) or stop not in get_args(MixStop):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(
            f"stop is one of 'first', 'all', 'never', got {shown(stop)}", actual=stop
        )
    if not isinstance(sources, Mapping) or not sources:
        raise InvalidInputError(
            f"mix() takes {{'name': (dataset, weight), …}}, got {_brief(sources)}"
            "\nwrite tl.mix({'web': (web, 0.7), 'code': (code, 0.3)})",
            actual=sources,
        )
    given: dict[str, Rows] = {}
    weights: dict[str, Weight] = {}
    for name, pair in sources.items():
        if not isinstance(name, str):
            raise InvalidInputError(
                f"a source of the mix is named by a string, got {shown(name)}"
                "\nwrite tl.mix({'web': (ds, 0.5), …})",
                actual=name,
            )
        given[name], weight = _pair(name, pair)
        weights[name] = weight.item() if isinstance(weight, np.generic) else weight
    check_weights(weights, {name: len(one) for name, one in given.items()}, stop)
    return Mix(given, weights, stop, by)


def _pair(name: str, pair: object) -> tuple[Rows, Any]:
    if isinstance(pair, Sequence) and len(pair) == PAIR and isinstance(pair[0], Rows):
        if not rowset_of(pair[0]).has_rows:
            raise InvalidInputError(
                f"source {name!r} of the mix is an aggregate: it has no rows\nmix a view of rows"
            )
        return pair[0], pair[1]
    raise InvalidInputError(
        f"source {name!r} of the mix is a pair (dataset or view, weight), got {_brief(pair)}"
        f"\nwrite tl.mix({{{name!r}: (ds, 0.5), …}})",
        actual=pair,
    )


def _brief(given: object, *, depth: int = 0) -> str:
    """Format a value for a message: datasets and views by their URL, nested lists to a depth."""
    if isinstance(given, Rows):
        return f"a {type(given).__name__} of {given.url!r}"
    if isinstance(given, list | tuple) and depth < BRIEF_DEPTH:
        items = cast("list[object]", given)
        more = ", …" if len(items) > SHOWN_ITEMS else ""
        kind = "list" if isinstance(given, list) else "tuple"
        brief = ", ".join(_brief(one, depth=depth + 1) for one in items[:SHOWN_ITEMS])
        return f"a {kind} of {brief or 'nothing'}{more}"
    return shown(given)


def _made_again(mixed: Mix, framework: Framework, arguments: Any, **replaced: Any) -> Loader:
    return mixed.__loader__(framework, arguments | replaced)
