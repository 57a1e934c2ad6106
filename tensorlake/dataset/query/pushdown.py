"""Queries over a dataset behind a server run there, beside the data, and return the result.

    POST …/selection {version, digest, steps: [… steps to the view, the query]}
    answer, as .npz  `said`: JSON {"names": […], "cost": {…}}
                     rows                             the rows that it selects, of the version
                     0.values 0.valid | 0.shapes …    or, of groups, the values of each column

    POST …/search {version, digest, steps, column, query, …}    answer: JSON, as any client gets it

Columns that a query computes for the rows that it selects are not sent: a view computes them for
the rows that are read, here as anywhere. A query that a server cannot run, because it reads
other datasets or rows known only to this process, runs here, with a warning.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.steps import QueryStep, steps_to_json
from tensorlake.dataset.query.row_reference import named_rows
from tensorlake.dataset.query.udf import known_functions
from tensorlake.errors import InvalidInputError, RunsHereWarning, StorageError
from tensorlake.storage import LakeStore, runtime

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["Found", "ask_search", "ask_server", "read_found", "write_found"]

NPZ_TYPE = "application/x-npz"
SERVED_K = 1000  # rows that a server ranks
Found = npt.NDArray[np.int64] | dict[str, tql.Batch]
"""The rows that a query selects; for an aggregate, the values of its columns."""


def ask_server(
    view: RowSet,
    query: tql.CompiledQuery,
    written: str | tql.ast.Statement,
    params: Mapping[str, Any],
) -> Found | None:
    """Let the view's server run a query; None where it runs here.

    Args:
        view: The queried rows.
        query: The compiled query.
        written: The query as written.
        params: Values of its ``$name``s.

    Raises:
        QueryLimitError: It exceeded a limit of the server.
    """
    store = view.session.store
    if not isinstance(store, LakeStore) or view.selection.snapshot.is_staged:
        return None
    parsed = tql.parse(written) if isinstance(written, str) else written
    if parsed.explain:
        return None
    asked = _asked(view, query, parsed, params)
    if isinstance(asked, str):
        _warn_of_running_here("query", view, asked)
        return None
    found = read_found(runtime.run(store.ask("selection", asked, accept=NPZ_TYPE)))
    if isinstance(found, dict) is query.selects_rows:
        raise StorageError(
            f"{view.url!r} answered a query with another kind of result"
            "\nuse the same version of tensorlake on both sides",
            url=view.url,
        )
    return found


def ask_search(view: RowSet, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Let the view's server search its rows; None where the search runs here.

    Args:
        view: The searched rows.
        asked: The body of ``POST …/search``, without the members that name the rows.

    Returns:
        The answer: ``rows`` of the version, ``scores``, and so on.
    """
    store = view.session.store
    if not isinstance(store, LakeStore) or view.selection.snapshot.is_staged:
        return None
    named = named_rows(view)
    why = ""
    if named is None:
        why = "its rows were chosen by hand; save the view to have a server know them"
    elif _has_made_columns(view):
        why = "it is over columns that a query computes"
    elif asked["k"] > SERVED_K:
        why = f"it asks for more than the {SERVED_K:,} rows that a server ranks"
    elif not _is_json(asked):
        why = "a parameter of it cannot be sent"
    if named is None or why:
        _warn_of_running_here("search", view, why)
        return None
    body = {**asked, **named, "limit": 0}
    return json.loads(runtime.run(store.ask("search", body, accept="application/json")))


def _warn_of_running_here(what: str, view: RowSet, why: str) -> None:
    warnings.warn(
        f"this {what} of {view.url!r} runs here, and reads what it needs: {why}",
        RunsHereWarning,
        stacklevel=7,
    )


def _is_json(value: Mapping[str, Any]) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _asked(
    view: RowSet, query: tql.CompiledQuery, parsed: tql.ast.Statement, params: Mapping[str, Any]
) -> dict[str, Any] | str:
    """Return the request to the server, or the reason why there is none."""
    named = named_rows(view)
    if named is None:
        return "its rows were chosen by hand; save the view to have a server know them"
    why = _why_here(view, query, parsed)
    if why is not None:
        return why
    try:
        step = steps_to_json((QueryStep(query.text, params),))
    except InvalidInputError:
        return "a parameter of it cannot be sent"
    return named | {"steps": [*named.get("steps", []), *step]}


def _why_here(view: RowSet, query: tql.CompiledQuery, parsed: tql.ast.Statement) -> str | None:
    calls = [node for node in tql.ast.walk(parsed) if isinstance(node, tql.ast.Call)]
    own = {*known_functions(), *tql.plug_in_names()} if calls else set[str]()
    for call in calls:
        if call.name in own and not tql.is_function(call.name):
            return f"{call.name} is a function of this process"
    if not isinstance(parsed, tql.ast.Query):
        return "it joins the results of several"
    if parsed.source is not None or parsed.tables or parsed.expand or parsed.ungroup_by:
        return "it reads more than the rows of this"
    if not query.selects_rows:
        return None
    if _has_made_columns(view):
        return "it is over columns that another query computes"
    selected = [node for output in parsed.select for node in tql.ast.walk(output)]
    for node in selected:
        if isinstance(node, tql.ast.Subquery):
            return "it selects what another query finds"
        if isinstance(node, tql.ast.Call) and (node.over is not None or node.name == "RANDOM"):
            return f"what {node.name} gives depends on more than its row"
    return None


def _has_made_columns(view: RowSet) -> bool:
    """Whether it has computed columns that a server does not have, too, with all rows."""
    schema = view.selection.snapshot.schema
    is_declared = view.selection.rows is None and {*view.computed}.isdisjoint(schema.stored)
    return bool(view.computed) and not (is_declared and {*view.computed} <= {*schema.names})


def write_found(found: Found, said: Mapping[str, Any]) -> bytes:
    """Serialize the result of a query, for `read_found`."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    names: list[str] = []
    if isinstance(found, dict):
        names = [*found]
        for number, batch in enumerate(found.values()):
            arrays |= {f"{number}.{part}": one for part, one in _parts(batch).items()}
    else:
        most = int(found.max(initial=0))
        arrays["rows"] = found.astype(np.min_scalar_type(most))
    text = json.dumps({**said, "names": names}).encode()
    arrays["said"] = np.frombuffer(text, np.uint8)
    out = io.BytesIO()
    write: Any = np.savez  # its stub accepts identifiers only
    write(out, **arrays)
    return out.getvalue()


def read_found(body: bytes) -> Found:
    """Parse the output of `write_found`."""
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        if "rows" in arrays:
            return arrays["rows"].astype(np.int64)
        names: Sequence[str] = json.loads(arrays["said"].tobytes())["names"]
        return {name: _batch(arrays, number) for number, name in enumerate(names)}


def _parts(batch: tql.Batch) -> dict[str, npt.NDArray[Any]]:
    match batch:
        case tql.ObjectBatch(values=values):
            return {"objects": np.frombuffer(msgspec.msgpack.encode(list(values)), np.uint8)}
        case tql.UniformBatch(values=values, valid=valid):
            parts = {"values": np.asarray(values)}
        case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
            parts = {"values": np.asarray(values), "shapes": shapes}
    return parts if valid is None else parts | {"valid": valid}


def _batch(arrays: Mapping[str, npt.NDArray[Any]], number: int) -> tql.Batch:
    parts = {
        part: arrays[f"{number}.{part}"]
        for part in ("objects", "values", "shapes", "valid")
        if f"{number}.{part}" in arrays
    }
    if "objects" in parts:
        return tql.ObjectBatch(msgspec.msgpack.decode(parts["objects"].tobytes()))
    if "shapes" in parts:
        return tql.RaggedBatch(parts["values"], parts["shapes"], parts.get("valid"))
    return tql.UniformBatch(parts["values"], parts.get("valid"))
