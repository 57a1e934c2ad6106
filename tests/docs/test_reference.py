"""The reference pages name what there is."""

import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake import errors
from tensorlake.loader import Loader, decode

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
HOMES = ("tensorlake", "query/tensorlake_query", "server/tensorlake_server")


def words_of(page: str) -> set[str]:
    return set(re.findall(r"\w+", (REFERENCE / page).read_text(encoding="utf-8")))


def test_the_sdk_page_names_every_public_name():
    names = {name for name in tl.__all__ if name not in errors.__all__}

    assert names - words_of("sdk.md") == set()


def test_the_errors_page_names_every_error_with_its_code():
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]

    missing = [
        kind.__name__
        for kind in kinds
        if kind is not errors.TensorlakeError and f"| `{kind.code}` |" not in page
    ]

    assert missing == []
    assert {kind.__name__ for kind in kinds} - words_of("errors.md") == set()


def test_the_errors_page_describes_every_warning():
    kinds = {name for name in errors.__all__ if name.endswith("Warning")}

    table = (REFERENCE / "errors.md").read_text(encoding="utf-8").partition("## Warnings")[2]

    assert kinds - set(re.findall(r"\w+", table)) == set()
    assert {name for name in kinds if getattr(tl, name) is not getattr(errors, name)} == set()


def test_every_warning_of_the_packages_is_in_errors():
    sources = [path for home in HOMES for path in (ROOT / home).rglob("*.py")]
    defined = {
        name
        for path in sources
        for name in re.findall(r"^class (\w+)\(\w*Warning\)", path.read_text(), re.MULTILINE)
    }

    assert defined == {name for name in errors.__all__ if name.endswith("Warning")}


def test_reports_that_calls_return_are_public():
    owners = (tl.Dataset, tl.View, tl.Tensor)
    calls = [getattr(tl, name) for name in tl.__all__]
    calls += [inspect.getattr_static(owner, name) for owner in owners for name in dir(owner)]
    calls = [one.fget if isinstance(one, property) else one for one in calls]
    shown = [inspect.signature(one).return_annotation for one in calls if inspect.isfunction(one)]

    reports = set(re.findall(r"\w+Report\b", " ".join(map(str, shown))))

    assert len(reports) > 6
    assert reports - {*tl.__all__} == set()


@cache
def handles() -> dict[str, object]:
    """One of each thing that a user holds, as examples in the page call them."""
    ds = tl.create("memory://reference-handles", {"x": "int64", "p/a": "int64", "p/b": "int64"})
    ds.extend({"x": [1, 2], "p/a": [1, 2], "p/b": [3, 4]})
    ds.commit("two rows")
    return {
        "ds": ds,
        "view": ds.where("x > 1"),
        "tensor": ds["x"],
        "group": ds["p"],
        "row": ds[0],
        "diff": ds.diff("main@0", "main@1"),
        "mixed": tl.mix({"one": (ds, 1)}),
    }


@pytest.mark.parametrize("name", ["ds", "view", "tensor", "group", "row", "diff", "mixed"])
def test_completion_offers_what_the_sdk_page_names(name):
    handle = handles()[name]
    offered = {one for one in dir(handle) if not one.startswith("_")}

    assert offered - words_of("sdk.md") == set()


@pytest.mark.parametrize("name", ["ds", "view"])
def test_what_the_sdk_page_calls_is_there(name):
    handle = handles()[name]
    page = (REFERENCE / "sdk.md").read_text(encoding="utf-8")
    called = set(re.findall(rf"(?<![\w/]){name}\.(\w+)(?!\.md)", page)) - {"md"}

    assert len(called) > 5
    assert called - {*dir(handle)} == set()


def test_internal_names_are_not_offered():
    inner = {"repin", "positions_named", "iter_column_batches", "selection", "reader", "stream"}
    inner |= {"frozen", "change_names", "assign", "has_rows", "computed", "session", "steps"}
    inner |= {"held_nbytes", "with_computed", "with_name", "names_or_none", "positions"}
    inner |= {"read_codes", "snapshot"}

    for handle in handles().values():
        assert inner & {*dir(handle)} == set()


def test_the_sdk_page_names_every_importer_and_the_loader_page_every_step():
    assert {*tl.ingest.__all__} - words_of("sdk.md") == set()
    assert {*decode.spec.STEPS, "imagenet", "Pad"} - words_of("loader.md") == set()


@pytest.mark.parametrize(
    "kind", [tl.Commit, tl.Diff, tl.MapReport, tl.Mix, tl.Tensor], ids=lambda one: one.__name__
)
def test_the_sdk_page_names_every_word_of_what_calls_return(kind):
    public = {name for name in dir(kind) if not name.startswith("_")}
    inner = {"of_entry", "tensor_names"}

    assert public - inner - words_of("sdk.md") == set()


def test_the_loader_page_names_every_word_of_a_loader():
    public = {name for name in dir(Loader) if not name.startswith("_")}

    assert public - words_of("loader.md") == set()
