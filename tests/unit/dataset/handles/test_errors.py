"""Errors and warnings as users import, catch, print, copy and pickle them."""

import builtins
import copy
import importlib
import pickle
import pkgutil
import subprocess
import sys
import traceback
from typing import Any, get_type_hints

import pytest

import tensorlake as tl
import tensorlake_query

NOT_INSTALLED = {"tensorflow"}  # for the default suite


def classes_of(kind: Any) -> set[Any]:
    """Every class below one that is defined in the package."""
    for module in pkgutil.walk_packages(tl.__path__, "tensorlake."):
        if module.name.startswith(("tensorlake.__main__", "tensorlake.testing")):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name not in NOT_INSTALLED:
                raise
    found: set[Any] = set()
    left = [kind]
    while left:
        for below in left.pop().__subclasses__():
            if below not in found:
                found.add(below)
                left.append(below)
    return found


def is_ours(kind: Any):
    return kind.__module__.partition(".")[0] == "tensorlake"


PUBLIC = [getattr(tl, name) for name in tl.__all__ if name.endswith("Error")]
WARNINGS: list[Any] = sorted(filter(is_ours, classes_of(UserWarning)), key=str)
VARIANTS = sorted(
    (kind for kind in classes_of(tl.TensorlakeError) if kind.__module__ == "tensorlake"),
    key=lambda kind: [(base.__name__, base.__module__) for base in kind.__mro__],
)  # of one name there may be several: under the engine's tree, too


def query_error_of(ds: Any, tql: Any):
    with pytest.raises(tl.QueryError) as raised:
        ds.query(tql)
    return raised.value


def test_tl_errors_has_every_error_of_the_module():
    assert {kind.__name__ for kind in PUBLIC} <= set(tl.errors.__all__)
    assert all(getattr(tl.errors, kind.__name__) is kind for kind in PUBLIC)
    assert "ConflictError" in dir(tl.errors)


@pytest.mark.parametrize("kind", PUBLIC + WARNINGS, ids=lambda kind: kind.__name__)
def test_an_error_or_warning_is_shown_and_pickled_by_the_name_that_users_import(kind: Any):
    shown = traceback.format_exception_only(kind("what happened"))

    assert shown == [f"tensorlake.{kind.__name__}: what happened\n"]
    assert kind.__name__ in tl.__all__
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert get_type_hints(kind) == {}


@pytest.mark.parametrize("kind", VARIANTS, ids=lambda kind: kind.__name__)
def test_every_variant_of_an_error_survives_pickling_and_copying(kind: Any):
    position: Any = {"text": "x"}
    engine: Any = tensorlake_query
    if issubclass(kind, engine.QueryError):
        position |= {"span": engine.syntax.ast.Span(0, 1), "hint": "h"}
    error = kind("what happened", **position)

    again, copied = pickle.loads(pickle.dumps(error)), copy.copy(error)

    assert type(again) is type(copied) is kind
    assert (
        (again.message, again.facts)
        == (copied.message, copied.facts)
        == ("what happened", position)
    )
    assert traceback.format_exception_only(error)[0].startswith(f"tensorlake.{kind.__name__}: ")
    assert issubclass(kind, getattr(tl, kind.__name__))


@pytest.mark.parametrize(
    ("tql", "name"),
    [
        ("WHERE", "QuerySyntaxError"),
        ("WHERE nothing = 1", "QueryNameError"),
        ("WHERE x = 'a'", "QueryTypeError"),
    ],
)
def test_errors_of_the_engine_are_shown_as_tensorlakes(tql: Any, name: Any):
    with tl.create("memory://errors-query", {"x": "int64"}, exist_ok=True) as ds:
        error = query_error_of(ds, tql)

    printed = "".join(traceback.format_exception(error))
    assert f"tensorlake.{name}: [" in printed
    assert isinstance(error, getattr(tl, name))
    assert isinstance(error, getattr(tensorlake_query, name))


def test_an_error_of_the_loader_is_shown_under_a_public_name():
    with (
        tl.create("memory://errors-loader", {"x": "int64"}) as ds,
        pytest.raises(tl.InvalidInputError) as raised,
    ):
        ds.torch(batch_size=1, cache_decoded=True)

    assert traceback.format_exception_only(raised.value)[0].startswith(
        "tensorlake.InvalidInputError: "
    )


def test_an_error_of_a_users_own_keeps_its_module():
    class OwnError(tl.InvalidInputError):
        pass

    assert OwnError.__module__ == __name__


@pytest.mark.slow
def test_a_star_import_replaces_no_builtin():
    assert set(tl.__all__) & set(dir(builtins)) == set()

    checked = (
        "from tensorlake import *\n"
        "import builtins, tensorlake\n"
        "assert open is builtins.open and list is builtins.list\n"
        "assert create is tensorlake.create and ConflictError is errors.ConflictError\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", checked], check=True)


def test_open_and_list_are_names_of_the_module_all_the_same():
    assert {"open", "list"} <= set(dir(tl))
    assert tl.open.__module__ == tl.list.__module__ == "tensorlake"
