from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server.bodies.columns import identify_samples
from tensorlake_server.http.caching import cache_headers, etag_of, is_fixed


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ("main@12", True),
        ("fix/labels@0", True),
        ("main", False),
        ("v1", False),
        (None, False),
        ("a@b", False),
    ],
)
def test_only_a_commit_is_fixed(*, version: str | None, fixed: bool) -> None:
    assert is_fixed(version) is fixed


def test_a_commit_keeps_for_ever_and_a_branch_is_asked_each_time() -> None:
    assert "immutable" in cache_headers("main@12", '"x"')["Cache-Control"]
    assert cache_headers("main", '"x"')["Cache-Control"] == "private, no-cache"


def test_parts_of_an_etag_cannot_run_together() -> None:
    assert etag_of("ab", "c") != etag_of("a", "bc")
    assert etag_of("a", 1) == etag_of("a", 1)


def test_a_stored_sample_that_reads_as_another_type_has_another_name() -> None:
    ds = tl.create("memory://server-altered", {"x": "uint8", "y": "uint8"})
    ds.extend({"x": [1, 2], "y": [1, 2]})
    ds.commit()
    ds.alter_tensor("x", dtype="int32")
    ds.commit()
    rows = np.arange(2)

    def names(version: str, name: str) -> list[str]:
        return identify_samples(ds.at(version), name, rows, view=None)

    assert names("main@1", "x") != names("main@2", "x")
    assert names("main@1", "y") == names("main@2", "y")
