"""Hints for names from other libraries: the end of an ``AttributeError``.

    ds.features      AttributeError: Dataset has no 'features'; the schema is ds.schema

For other names, which may be typos, the nearest existing name is suggested.
"""

from __future__ import annotations

import difflib

from tensorlake.errors import UnsupportedFeatureError, shown, shown_as

__all__ = ["hint_for", "no_such"]

_ANOTHER_VERSION = "another version is ds.at(version), a new handle"
_RESTORE = (
    "an older version comes back by ds.restore(version), one commit goes by ds.revert(version)"
)
_LOADER = "batches are ds.torch(batch_size=…), ds.jax(…), ds.tensorflow(…) or ds.loader(…)"
_SORT = "order is ds.order_by('column DESC'), a View"
_ADD = "a column is added by ds.add_tensor(name, type)"
_DROP = "a column goes by ds.drop_tensor(name)"
_NAMES = "class names are ds['label'].names, for a tensor 'label'"
_SMALLER = "small chunks merge by ds.optimize(); what no version needs goes by ds.gc()"
_HEAD = "the first rows are ds[:5]; on a command line: tensorlake head"

WORDS = {
    "columns": "the columns are ds.tensors, their types ds.schema",
    "column_names": "the columns are ds.tensors, their types ds.schema",
    "keys": "the columns are ds.tensors, their types ds.schema",
    "features": "the schema is ds.schema",
    "dtypes": "the types are ds.schema",
    "info": "a description is print(ds), or with sizes ds.summary()",
    "describe": "a description is print(ds), or with sizes ds.summary(full=True)",
    "num_rows": "the number of rows is len(ds)",
    "count_rows": "the number of rows is len(ds), or ds.count()",
    "shape": "rows are len(ds), columns ds.tensors, a tensor's shape ds['image'].shape",
    "classes": _NAMES,
    "class_to_idx": "codes are ds['label'].codes(names), for a tensor 'label'",
    "head": _HEAD,
    "tail": "the last rows are ds[-5:]",
    "limit": "the first n rows are ds.take(n)",
    "iterrows": "rows are: for row in ds",
    "to_df": "a DataFrame is ds.to_pandas()",
    "to_table": "an Arrow table is ds.to_arrow()",
    "to_polars": "polars takes it as it is: polars.from_arrow(ds.to_arrow())",
    **dict.fromkeys(("to_json", "write_json"), "JSON lines are ds.to_jsonl(path)"),
    "write_csv": "a CSV file is ds.to_csv(path)",
    "to_list": "rows are: for row in ds; a column is ds['x'].to_list(), for a tensor 'x'",
    "to_dict": "a whole column is ds['x'][:], all of them ds.to_arrow().to_pydict()",
    "numpy": "a whole column is ds['x'][:], for a tensor 'x'",
    "save": "changes are published by ds.commit(message); a View is named by view.save(name)",
    "flush": "changes are published by ds.commit(message)",
    "push": "changes are published by ds.commit(message); another store gets them by tl.copy",
    "pull": "this handle moves to the newest commit by ds.refresh()",
    "fetch": "this handle moves to the newest commit by ds.refresh()",
    "checkout": _ANOTHER_VERSION,
    "as_of": _ANOTHER_VERSION,
    "load_version": _ANOTHER_VERSION,
    "rollback": _RESTORE,
    "reset": f"staged changes go by ds.discard(); {_RESTORE}",
    "history": "commits are ds.log()",
    "commits": "commits are ds.log()",
    "versions": "commits are ds.log()",
    "merge_insert": "rows are updated or appended by ds.upsert(rows, on='id')",
    "update": "rows are updated by ds['x'][rows] = values, or ds.execute('UPDATE this SET …')",
    "insert": "rows are appended by ds.append(row) and ds.extend(columns)",
    "add": "rows are appended by ds.append(row) and ds.extend(columns)",
    "write": "rows are appended by ds.append(row) and ds.extend(columns)",
    "add_item": "rows are appended by ds.append(row) and ds.extend(columns)",
    **dict.fromkeys(("add_column", "add_columns", "create_tensor", "append_column"), _ADD),
    **dict.fromkeys(("remove_columns", "drop_columns", "delete_tensor", "drop"), _DROP),
    **dict.fromkeys(
        ("rename", "rename_column", "rename_columns"),
        "a column is renamed by ds.rename_tensor(old, new)",
    ),
    **dict.fromkeys(
        ("cast", "cast_column", "alter_columns"),
        "a type is widened by ds.alter_tensor(name, dtype=…); while streaming by tl.decode.Cast",
    ),
    **dict.fromkeys(("sort", "sort_values", "sort_by"), _SORT),
    **dict.fromkeys(
        ("groupby", "group_by", "unique", "value_counts"),
        "groups are ds.query('SELECT label, COUNT(*) AS n GROUP BY label')",
    ),
    "map": "map() is a dataset's, where= chooses rows: ds.map(fn, schema=…, where='…')",
    "sql": "questions are ds.query('WHERE …')",
    "shuffle": "order belongs to the loader: ds.torch(shuffle=True)",
    **dict.fromkeys(("iter_batches", "to_batches", "batch", "batches", "dataloader"), _LOADER),
    **dict.fromkeys(("pytorch", "to_torch", "with_format", "set_format", "to_tf"), _LOADER),
    "num_workers": "nothing needs worker processes; decode threads are ds.torch(workers=…)",
    **dict.fromkeys(("vacuum", "compact", "cleanup_old_versions"), _SMALLER),
    "compact_files": _SMALLER,
    "copy": "another store gets it by tl.copy(ds.url, url)",
    "push_to_hub": "another store gets it by tl.copy(ds.url, url); files are ds.to_parquet(path)",
    "train_test_split": "parts are ds.split({'train': 0.9, 'val': 0.1})",
    "explode": "lists become rows by ds.unnest('boxes', 'label')",
    "run": "queries are ds.query('…'), functions over rows ds.map(fn, schema=…)",
    "runs": "commits are ds.log(); a version is named by ds.tag(name)",
    "lint": "damage is found by ds.check()",
    "to_tensorflow": "batches of TensorFlow tensors are ds.tensorflow(batch_size=…)",
    "visualize": "a browser shows it: ds.show()",
}
_EXACT = "exact answers are ds.query('ORDER BY COSINE_SIMILARITY(vec, $q) DESC LIMIT 10', q=…)"
LATER: dict[str, str] = {
    **dict.fromkeys(("create_index", "drop_index", "indexes", "search"), _EXACT),
    "windows": "cut windows of one dataset or view: view.windows(size=16, by='episode')",
}
"""Names of a later version, and their substitutes in this one."""
ON_VIEWS: dict[str, str] = dict.fromkeys(
    ("append", "extend", "commit", "delete", "upsert", "add_tensor", "discard", "transaction"),
    "a View is frozen at its version: write to the dataset that it is of",
)

ON_MIXES = (
    "a mix only streams: rows and columns are chosen of its sources,"
    " tl.mix({'web': (web.query('…'), 0.5), …})"
)


@shown_as(UnsupportedFeatureError)
class _LaterWordError(UnsupportedFeatureError, AttributeError):
    """The error for a name of a later version; an ``AttributeError``, for ``hasattr``."""


def no_such(holder: object, name: str) -> AttributeError:
    """Build the error for a name that an object does not have.

    For a name of a later version it is also an ``UnsupportedFeatureError``.
    """
    kind = type(holder)
    if name in LATER:
        later = _LaterWordError(
            f"{kind.__name__} has no {shown(name)}; it comes in a later version\n{LATER[name]}"
        )
        later.name, later.obj = name, holder
        return later
    hint = hint_for(kind, name)
    message = f"{kind.__name__} has no {shown(name)}" + ("" if hint is None else f"; {hint}")
    return AttributeError(message, name=name, obj=holder)


def hint_for(kind: type, name: str) -> str | None:
    """Return the hint for a name that ``kind`` does not have; None if nothing is near."""
    if kind.__name__ == "Mix" and not name.startswith("_"):
        return ON_MIXES
    word = WORDS.get(name) or (ON_VIEWS.get(name) if kind.__name__ == "View" else None)
    if word is not None or name.startswith("_"):
        return word
    known = [one for one in dir(kind) if not one.startswith("_")]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"did you mean {near[0]!r}?" if near else None
