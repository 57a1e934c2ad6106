"""The reference pages name what there is."""

import re
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake import errors
from tensorlake.loader import Loader, decode

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def words_of(page: str) -> set[str]:
    return set(re.findall(r"\w+", (REFERENCE / page).read_text(encoding="utf-8")))


def test_the_sdk_page_names_every_public_name():
    names = {name for name in tl.__all__ if not name.endswith("Error")}

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


def test_the_sdk_page_names_every_method_of_a_dataset():
    public = {name for name in dir(tl.Dataset) if not name.startswith("_")}
    inner = {"assign", "change_names", "computed", "iter_column_batches", "positions_named"}
    inner |= {"has_rows", "reader", "repin", "selection", "session", "stream"}

    assert public - inner - words_of("sdk.md") == set()


def test_the_sdk_page_names_every_importer_and_the_loader_page_every_step():
    assert {*tl.ingest.__all__} - words_of("sdk.md") == set()
    assert {*decode.spec.STEPS, "imagenet", "Pad"} - words_of("loader.md") == set()


@pytest.mark.parametrize(
    "kind", [tl.Commit, tl.Diff, tl.Mix, tl.Tensor], ids=lambda one: one.__name__
)
def test_the_sdk_page_names_every_word_of_what_calls_return(kind):
    public = {name for name in dir(kind) if not name.startswith("_")}
    inner = {"names_or_none", "of_entry", "positions", "read_codes", "tensor_names"}

    assert public - inner - words_of("sdk.md") == set()


def test_the_loader_page_names_every_word_of_a_loader():
    public = {name for name in dir(Loader) if not name.startswith("_")}

    assert public - words_of("loader.md") == set()
