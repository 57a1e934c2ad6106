"""The names of `tensorlake.compat.deeplake` are those of Deep Lake 4."""

from __future__ import annotations

from typing import Any

import pytest

from tensorlake.compat import deeplake

library: Any = pytest.importorskip("deeplake", minversion="4")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

OURS = {"tensorlake"}


def names_of(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_functions_methods_and_types_have_the_library_s_names() -> None:
    assert {*deeplake.__all__} <= names_of(library)
    assert names_of(deeplake.Dataset) - OURS <= names_of(library.Dataset)
    assert names_of(deeplake.DatasetView) - OURS <= names_of(library.DatasetView)
    assert {*deeplake.types.__all__} - {"nullable"} <= names_of(library.types)
