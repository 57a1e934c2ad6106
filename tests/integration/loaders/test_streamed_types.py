"""``decode_on="server"``: a sample of every type is the one of a local loader."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.builtin import BUILT_IN
from tensorlake_server import Settings, create_app
from tests.golden.contents import JPEG
from tests.golden.make_v1_media import main as write_media
from tests.golden.media_contents import LINKED
from tests.golden.release_images import pixels_of
from tests.golden.release_types import every_type
from tests.support.serving import listening

TOKEN = "t" * 16
NAMES = ("types", "media", "more")
MORE = {
    "tiled": tl.Image("png", tiles=(16, 16), nullable=True),
    "clips": tl.Sequence(tl.Image("jpeg")),
    "typed": tl.Json(arrow="struct<a: int64, b: list<string>>"),
    "linked": tl.Link(tl.Image("jpeg"), nullable=True),
    "recorded": tl.Link(tl.Audio(), nullable=True),
}


def write_more(folder: Path) -> None:
    ds = tl.create(str(folder), MORE)
    for number in range(5):
        (folder / f"{number}.jpg").write_bytes(JPEG)
        ds.append(
            {
                "tiled": pixels_of(number) if number % 2 else None,
                "clips": [JPEG] * (number % 3),
                "typed": {"a": number, "b": ["x"] * number},
                "linked": f"{number}.jpg" if number % 3 else None,
                "recorded": (folder.parent / "media" / LINKED).as_uri() if number % 2 else None,
            }
        )
    ds.commit("tiles, clips, typed JSON, links")


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, tuple[tl.Dataset, tl.Dataset]]]:
    """Datasets that together have a column of every type: in a folder, and behind a server."""
    with tempfile.TemporaryDirectory() as root:
        lake = Path(root)
        every_type(str(lake / "types"))
        write_media(lake / "media")
        write_more(lake / "more")
        with listening(create_app(Settings(url=root, token=TOKEN, follow_links=True))) as address:
            yield {
                name: (tl.open(str(lake / name)), tl.open(f"{address}/{name}", token=TOKEN))
                for name in NAMES
            }


def fitting(ds: tl.Dataset, *, mixed: bool) -> list[str]:
    """Columns of handles that a client of the server can read."""
    names = [name for name, one in ds.schema.items() if not (mixed and isinstance(one, tl.Link))]
    return [name for name in names if name != "link"]  # to a file in the folder: for servers only


def plain(value: Any) -> Any:
    """Return all that a user sees of a value, to be compared."""
    if isinstance(value, SampleHandle):
        return type(value), value.type, value.tensor, value.row, value.shape, value.content
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return type(value), repr(value)


def test_every_type_is_streamed_here(both: dict[str, tuple[tl.Dataset, tl.Dataset]]) -> None:
    assert {type(one) for here, _ in both.values() for one in here.schema.values()} == set(BUILT_IN)


@given(data=st.data())
def test_samples_of_every_type_are_those_of_a_local_loader(
    both: dict[str, tuple[tl.Dataset, tl.Dataset]], data: st.DataObject
) -> None:
    names = data.draw(st.sampled_from([(one,) for one in NAMES] + [(one, one) for one in NAMES]))
    here, there = zip(*(both[name] for name in names), strict=True)
    known = fitting(here[0], mixed=len(names) > 1)
    columns = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
    options: dict[str, Any] = {
        "columns": columns + data.draw(st.sampled_from([[], ["_row"]])),
        "collate": dict.fromkeys(columns, "list"),
        "batch_size": data.draw(st.integers(1, 4)),
        "seed": 3,
        "on_error": data.draw(st.sampled_from(["raise", "skip"])),
        "transform": data.draw(st.sampled_from([None, dict])),
    }
    options |= data.draw(
        st.sampled_from([{}, {"shuffle": True}, {"shuffle": "window"}, {"repeat": 2}])
    )
    mixed = [
        sides[0]
        if len(sides) == 1
        else tl.mix({str(n): (one, 0.5) for n, one in enumerate(sides)}, stop="all")
        for sides in (here, there)
    ]
    if len(names) > 1:
        options.pop("repeat", None)

    expected = [*mixed[0].loader(**options)]
    streamed = [*mixed[1].loader(**options, decode_on="server")]

    assert [plain(batch) for batch in streamed] == [plain(batch) for batch in expected]
