"""A dataset's URL has no query and no fragment that is left out without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StorageError

CALLS: list[Callable[[str], Any]] = [
    tl.open,
    lambda url: tl.create(url, {"x": "int64"}),
    tl.exists,
    tl.list,
    lambda url: tl.delete(url, confirm=url),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("scheme", ["http", "https", "s3", "gs", "az", "hf", "fsspec+s3"])
def test_a_query_suggests_the_argument(scheme: str, call: Callable[[str], Any]) -> None:
    place = f"{scheme}://127.0.0.1:9/pets"
    with pytest.raises(InvalidInputError) as refused:
        call(f"{place}?version=main@1")
    assert f"tl.open({place!r}, version='main@1')" in str(refused.value)
    with pytest.raises(InvalidInputError, match=r"query \(\?…\)") as refused:
        call(f"{place}?sig=secret")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_bucket_has_no_fragment(scheme: str) -> None:
    with pytest.raises(InvalidInputError, match="fragment"):
        tl.open(f"{scheme}://bucket/pets#cats")


def test_a_fragment_behind_a_server_is_a_view_or_the_token_of_a_printed_link() -> None:
    for fragment in ("cats", "token=abc?"):
        with pytest.raises(StorageError, match="could not read"):  # it asks the server
            tl.open(f"http://127.0.0.1:9/pets#{fragment}")


def test_both_characters_belong_to_paths_and_names_in_memory(tmp_path: Path) -> None:
    for place in (str(tmp_path), (tmp_path / "uri").as_uri(), "memory://marked"):
        for name in ("a?version=main@0", "a#b"):
            made = tl.create(f"{place}/{name}", {"x": "int64"})
            assert made.url.endswith(name)
            assert tl.open(made.url).version == "main@0"
