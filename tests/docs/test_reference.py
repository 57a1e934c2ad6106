"""The reference pages name what there is."""

import re
from pathlib import Path

import tensorlake as tl
from tensorlake import errors

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
