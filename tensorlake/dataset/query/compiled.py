"""Queries checked against a view and planned; those seen before on equal columns are kept.

A plan depends on the text, the columns' types and the values given for its names, never on rows, so
it is kept with the snapshot and shared by all views of it. Queries that open other tables, draw at
random, call functions of the user, or are given arrays are planned each time.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

import tensorlake_query as tql
from tensorlake.dataset.columns.freshness import fresh_function
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.query.source import SelectionSource
from tensorlake.dataset.query.tables import DatasetTables, source_of, table_params
from tensorlake.dataset.query.udf import function_names, known_functions

__all__ = ["compiled_query"]

SEED_BITS = 31  # of a seed that is drawn for a query: short enough to be read in its text
KEPT_PLANS = 128  # of a snapshot: some 20 kB each
SHORT_TEXT = 1024  # characters of a text, and of each text given, that are kept
OF_RUNS = "RUN", "STEP"  # what the names of functions of runs have
PLAIN = int, float, bool, type(None)


class _Plans:
    """The plans of the queries that were run last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Any, tql.CompiledQuery] = OrderedDict()

    def get(self, key: Any) -> tql.CompiledQuery | None:
        """Return the plan kept under a key."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def keep(self, key: Any, query: tql.CompiledQuery) -> None:
        """Keep a plan, and forget the one that was not used for the longest time."""
        with self._lock:
            self._known[key] = query
            if len(self._known) > KEPT_PLANS:
                self._known.popitem(last=False)


def compiled_query(
    view: RowSet,
    query: str | tql.ast.Statement,
    params: Mapping[str, Any],
    *,
    reaches_out: bool,
    text: str | None = None,
    limits: tql.Limits | None = None,
    condition: str | None = None,
) -> tuple[SelectionSource, tql.CompiledQuery]:
    """Check a query against a view; return the view as a source, and the query.

    Args:
        view: Rows of a dataset.
        query: TQL, or its syntax tree.
        params: A value for each ``$name``.
        reaches_out: Whether FROM may open other datasets, and user functions may be called.
        text: The text that places of the syntax tree refer to.
        limits: Ends parsing.
        condition: The text of its condition, if the syntax tree has nothing else.
    """
    source = source_of(view)
    given = _known_values(params)
    written = query if isinstance(query, str) else condition
    key = None
    is_short = written is not None and len(written) <= SHORT_TEXT
    if is_short and given is not None and not view.computed:
        columns = view.selection.columns
        key = written, query is written, columns, given, reaches_out, function_names()
    plans: _Plans = view.selection.snapshot.kept.setdefault("plans", _Plans())
    known = None if key is None else plans.get(key)
    if known is not None:
        if limits is not None:
            limits.deadline(known.text).check_parsing(0)
        return source, known
    tables = DatasetTables(view, reaches_out=reaches_out)
    compiled = tql.compile_query(
        query,
        source.schema,
        params=table_params(params),
        tables=tables,
        functions=_functions(view, written, reaches_out=reaches_out),
        seed=secrets.randbits(SEED_BITS),
        text=text,
        limits=limits,
    )
    if key is not None and compiled.is_repeatable and not tables.has_opened:
        plans.keep(key, compiled)
    return source, compiled


def _functions(view: RowSet, text: str | None, *, reaches_out: bool) -> dict[str, tql.Function]:
    """Return the functions that a query may call beside the language's.

    Those of runs are left out where a text does not name one: importing them takes 0.1 s.
    """
    own = known_functions() if reaches_out else {}
    of_runs: dict[str, tql.Function] = {}
    if text is None or any(name in text.upper() for name in OF_RUNS):
        of_runs = view.session.functions(view, reaches_out=reaches_out)
    return own | of_runs | {"FRESH": fresh_function(view)}


def _known_values(params: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return values that compare equal only where queries treat them alike; None without such."""
    known: list[Any] = []
    for name, value in params.items():
        if type(value) is str and len(value) <= SHORT_TEXT:
            known.append((name, value))
        elif type(value) in PLAIN:
            exact = value if type(value) is int else repr(value)  # of an int, digits have a limit
            known.append((name, type(value), exact))  # 0.0 and -0.0 are equal, NaN to nothing
        else:
            return None
    return tuple(known)
