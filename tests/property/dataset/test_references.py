"""Any history of renames, drops, checks, expressions, rows and merges keeps what it declares.

Two branches and a second handle change a dataset at random. Whatever is refused, each version that
is published meets its checks, has every column that it declares, and takes another row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.handles.open import create
from tests.support.handles import open_on

_numbers = itertools.count()

NAMES = ("a", "b", "c", "label")
CLASSES = ("cat", "dog", "emu")
CONDITIONS = (
    "a <= 5", "a <= b", "b >= 0 OR c > 0", "label != 'dog'", "label = 'cat' OR a > 0",
    "label LIKE 'c%' OR label LIKE 'd%'", "label IN ('cat', 'emu')", "c IS NULL OR c < 9",
)  # fmt: skip
EXPRESSIONS = (("a + b", "int64"), ("c * 2", "int64"), ("label = 'emu'", "bool"), ("a", "int64"))
REFUSALS = (
    tl.ConstraintError, tl.SchemaError, tl.QueryError, tl.InvalidInputError, tl.TensorNotFoundError,
    tl.UnknownClassError, tl.UnsupportedFeatureError, tl.UncommittedChangesError,
)  # fmt: skip

Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("rename", "rename", "rename class", "drop", "drop class", "add class", "add", "check",
             "check", "no check", "expression", "key", "row", "row", "cell", "revert")
        ),
        st.integers(0, 2),
        st.integers(0, 11),
        st.integers(0, 11),
    ),
    min_size=4,
    max_size=24,
)  # fmt: skip


def _row(ds: Dataset, value: int) -> dict[str, object]:
    """Return a value for each tensor that takes one."""
    found: dict[str, object] = {}
    for spec in ds.__session__.snapshot().schema:
        if not spec.is_virtual:
            classes = [one for one in getattr(spec.type, "names", ()) if one]
            found[spec.name] = classes[value % len(classes)] if classes else value
    return found


def _stage(ds: Dataset, what: str, one: int, other: int) -> None:
    schema = list(ds.schema)
    name = schema[one % len(schema)]
    classes = ds["label"].names if "label" in schema else ()
    assert classes is not None
    match what:
        case "rename":
            ds.rename_tensor(name, NAMES[other % len(NAMES)])
        case "rename class" if classes:
            ds["label"].rename(classes[one % len(classes)], CLASSES[other % len(CLASSES)])
        case "drop class" if classes:
            ds["label"].drop_names([classes[one % len(classes)]])
        case "add class" if classes:
            ds["label"].add_names([CLASSES[other % len(CLASSES)]])
        case "drop":
            ds.drop_tensor(name)
        case "add":
            ds.add_tensor(NAMES[one % 3], "int64", other)
        case "check":
            ds.add_check(f"check {one % 3}", CONDITIONS[other % len(CONDITIONS)])
        case "no check":
            ds.drop_check(f"check {one % 3}")
        case "expression":
            text, kind = EXPRESSIONS[other % len(EXPRESSIONS)]
            ds.add_tensor(f"made {one % 2}", kind, compute=text)
        case "key":
            from tensorlake.dataset.maintenance.constraints import unique_key

            schema_now = ds.__session__.snapshot().schema
            with ds.__session__.lock:
                ds.__session__.staging().change_constraints(*unique_key(schema_now, name))
        case "row":
            ds.append(_row(ds, other))
        case "cell" if len(ds):
            ds[name][one % len(ds)] = _row(ds, other)[name]
        case "revert":
            ds.revert(ds.version)
        case _:
            pass


def _holds(ds: Dataset) -> None:
    """Check a published version, as another process opens it."""
    fresh = open_on(ds.__session__.store, ds.version.partition("@")[0])
    assert fresh.validate().ok, fresh.validate()
    names = fresh.__session__.committed.schema.names
    assert sorted(fresh.to_arrow().column_names) == sorted(names)
    assert not fresh.__session__.misfits(fresh.__session__, fresh.__session__.committed.schema)
    fresh.append(_row(fresh, 1))
    with suppress(tl.ConstraintError):  # the row is another matter: it was evaluated
        fresh.__session__._verify(fresh.__session__.transaction)  # pyright: ignore[reportPrivateUsage, reportArgumentType] - what a commit does, without one
    fresh.discard()
    fresh.close()


def _tried(call: Callable[[], object], ds: Dataset) -> None:
    try:
        call()
    except (*REFUSALS, tl.ConflictError):
        ds.discard()


def _run(steps: Sequence[Step]) -> None:
    types = {"a": "int64", "b": "int64", "c": "int64", "label": tl.ClassLabel(CLASSES)}
    main = create(f"memory://any-references-{next(_numbers)}", types)
    main.extend({"a": [0, 1], "b": [2, 3], "c": [0, 5], "label": ["cat", "emu"]})
    main.commit("rows")
    handles = [main, main.branch("branch"), open_on(main.__session__.store)]
    for what, which, one, other in steps:
        ds = handles[which]
        _tried(lambda ds=ds, what=what, one=one, other=other: _stage(ds, what, one, other), ds)
        if other % 3 == 0:  # else it is staged with what comes next
            _tried(lambda ds=ds: ds.commit("changes"), ds)
            _holds(ds)
        if one % 4 == 0 and which < 2:  # the two branches
            _tried(lambda ds=ds: ds.commit("changes"), ds)
            into, name = (main, "branch") if which else (handles[1], "main")
            _tried(lambda into=into: into.commit("changes"), into)
            how = ("error", "ours", "theirs")[other % 3]
            _tried(lambda into=into, name=name, how=how: into.merge(name, on_conflict=how), into)
            _holds(into)
    for ds in handles:
        _tried(lambda ds=ds: ds.commit("changes"), ds)
        _holds(ds)
        ds.close()


@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_every_published_version_holds_what_it_declares(steps: list[Step]) -> None:
    _run(steps)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_many_histories_hold_what_they_declare(steps: list[Step]) -> None:
    _run(steps)
