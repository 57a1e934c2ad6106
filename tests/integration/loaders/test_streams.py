"""``decode_on="server"``: the batches of a local loader, sent by a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.loader.sources.remote import streams
from tensorlake_server import Settings, create_app
from tests.integration.loaders.streamed_rows import (
    IMAGE,
    MOVABLE,
    ROWS,
    Served,
    check_batches,
    digest_of,
    jittered,
    picture,
    served_pets,
)
from tests.support.serving import listening, reserved_port

WAIT_S = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_pets(tmp_path_factory.mktemp("streams")) as found:
        yield found


WAYS: dict[str, dict[str, Any]] = {
    "plain": {"columns": ["score", "flag", "wave", "when", "_row"], "batch_size": 7},
    "everything": {"collate": {"image": "list"}, "batch_size": 6},
    "decoded": {
        "columns": MOVABLE,
        "decode": IMAGE,
        "shuffle": True,
        "seed": 3,
        "batch_size": 5,
        "collate": {"boxes": "pad", "labels": "concat"},
    },
    "mosaic": {
        "columns": MOVABLE,
        "decode": {"image": [*IMAGE["image"], tl.decode.Mosaic()]},
        "shuffle": True,
        "batch_size": 8,
    },
    "mixed": {
        "columns": ["image", "number"],
        "decode": {
            "image": [
                *IMAGE["image"][:2],
                tl.decode.ColorJitter(0.4, 0.4, 0.4, 0.1),
                tl.decode.MixUp("number", classes=ROWS),
            ]
        },
        "shuffle": True,
        "batch_size": 8,
    },
    "clips": {
        "columns": ["clip"],
        "decode": {"clip": IMAGE["image"]},
        "shuffle": True,
        "batch_size": 8,
        "collate": {"clip": "pad"},
        "layout": "NCHW",
    },
    "ranks": {
        "columns": ["tokens", "score"],
        "shuffle": "window",
        "global_batch_size": 12,
        "rank": 1,
        "world_size": 3,
        "collate": {"tokens": tl.collate.Pad(-1, multiple_of=4)},
    },
    "function": {"columns": ["tokens"], "batch_size": 8, "collate": {"tokens": len}},
    "short": {"columns": ["score"], "global_batch_size": 40, "rank": 5, "world_size": 8},
    "transformed": {"batch_size": 6, "collate": {"image": "list"}, "transform": jittered},
    "transformed, listed": {
        "columns": ["image", "tokens", "_row"],
        "decode": IMAGE,
        "weights": "score",
        "batch_size": 5,
        "collate": {"tokens": "pad"},
        "transform": jittered,
    },
    "transformed, short": {
        "columns": ["score"],
        "global_batch_size": 40,
        "rank": 5,
        "world_size": 8,
        "transform": jittered,
        "engine": "processes",
        "workers": 2,
    },
    "weighted": {
        "columns": ["image", "score"],
        "decode": IMAGE,
        "weights": "score",
        "seed": 1,
        "batch_size": 6,
    },
    "balanced classes, repeated": {
        "columns": ["score", "_row"],
        "weights": {"flag": "balanced"},
        "shuffle": True,
        "repeat": 2,
        "limit": 50,
        "batch_size": 7,
    },
    "stratified": {
        "columns": ["score"],
        "stratify": "flag",
        "shuffle": True,
        "global_batch_size": 9,
        "rank": 2,
        "world_size": 3,
    },
    "grouped": {"columns": MOVABLE, "decode": IMAGE, "group": "flag", "batch_size": 6},
    "by tokens": {
        "columns": ["tokens"],
        "batch_by": "tokens",
        "batch_size": 20,
        "shuffle": True,
        "collate": {"tokens": "pad"},
    },
    "balanced ranks": {
        "columns": ["image", "tokens"],
        "decode": IMAGE,
        "balance": "squares",
        "batch_size": 3,
        "rank": 1,
        "world_size": 3,
        "shuffle": True,
    },
    "short, grouped": {
        "columns": ["score"],
        "group": "flag",
        "global_batch_size": 40,
        "rank": 5,
        "world_size": 8,
    },
}
COMPOSED: dict[str, tuple[Callable[[tl.Dataset], Any], dict[str, Any]]] = {
    "packed": (lambda ds: ds.pack("tokens", 8, eos=7), {"batch_size": 2, "shuffle": True}),
    "packed whole, flat": (
        lambda ds: ds.pack("tokens", 9, eos=7, split=False),
        {
            "batch_size": 3,
            "collate": {"tokens": "concat"},
            "decode": {"tokens": tl.decode.Cast("int64")},
        },
    ),
    "windows of rows": (
        lambda ds: ds.windows(["image", "tokens", "score"], by="flag", size=4, step=2, tail="pad"),
        {"batch_size": 3, "shuffle": True, "decode": {"image": tl.decode.Resize(16, 16)}},
    ),
    "windows of arrays": (
        lambda ds: ds.windows(["wave"], size=2, step=1),
        {"batch_size": 5, "shuffle": True, "rank": 1, "world_size": 2},
    ),
    "windows of ragged arrays": (
        lambda ds: ds.windows(["tokens"], size=3, step=1, tail="keep"),
        {"batch_size": 8, "decode": {"tokens": tl.decode.Cast("int64")}},
    ),
}
ORDERS = {name: (lambda ds: ds, arguments) for name, arguments in WAYS.items()} | COMPOSED


@pytest.mark.slow
@pytest.mark.parametrize("way", ORDERS)
@pytest.mark.parametrize("listed_rows", [1 << 14, 9])
@pytest.mark.filterwarnings("ignore::tensorlake.loader.ShortBatchWarning")
def test_batches_are_equal_to_those_of_a_local_loader_before_and_after_a_resume(
    served: Served, way: str, listed_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LISTED_ROWS", listed_rows)
    made, arguments = ORDERS[way]
    here, there = map(made, served.both())
    local = here.loader(**arguments)
    remote = there.loader(**arguments, decode_on="server")
    resumed = there.loader(**arguments, decode_on="server")

    check_batches(local, remote, resumed)
    assert remote.state_dict() == {**local.state_dict(), **_own_source(remote)}
    remote.close()


def _own_source(loader: tl.loader.Loader) -> dict[str, Any]:
    return {name: one for name, one in loader.state_dict().items() if name == "source"}


@pytest.mark.filterwarnings("ignore::tensorlake.RunsHereWarning")
def test_queries_and_saved_views_are_streamed_with_what_they_compute(served: Served) -> None:
    here, there = served.both()
    text = "SELECT score * 2 AS twice, caption, score > 20 AS high WHERE score > $low"

    for rows in (
        lambda ds: ds.query(text, low=4.0).query("ORDER BY twice DESC"),
        lambda ds: ds[["score", "caption"]],
    ):
        local = [digest_of(batch) for batch in rows(here).loader(batch_size=9)]
        remote = rows(there).loader(batch_size=9, decode_on="server")
        assert [digest_of(batch) for batch in remote] == local
    by_hand = here[[5, 3, 3, 8]].save("by-hand")
    saved = there.views["by-hand"].loader(columns=["score"], batch_size=3, decode_on="server")
    assert [digest_of(batch) for batch in saved] == [
        digest_of(batch) for batch in by_hand.loader(columns=["score"], batch_size=3)
    ]


@pytest.mark.parametrize("columns", [["image", "_row"], ["image", "_row", "_valid"]])
def test_rows_that_a_server_skips_are_not_transformed(served: Served, columns: list[str]) -> None:
    name = f"pets-skipped-{len(columns)}"
    ds = tl.create(str(served.lake / name), {"image": tl.Image("jpeg")})
    whole = picture(1)
    ds.extend({"image": [whole] * 4 + [whole[: len(whole) * 3 // 4] + b"\xff\xd9"] + [whole] * 3})
    ds.commit("one is cut short")
    there = tl.open(f"{served.address}/{name}", token=served.token_for(f"read:{name}"))
    given = {"columns": columns, "decode": IMAGE, "transform": jittered, "on_error": "skip"}

    found = list(there.loader(batch_size=3, decode_on="server", **given))

    assert [one["_row"].tolist() for one in found] == [[0, 1, 2], [3, 5], [6, 7]]
    here = ds.loader(batch_size=3, **given)
    assert [digest_of(batch) for batch in found] == [digest_of(batch) for batch in here]


def test_an_error_of_a_transform_ends_a_pass_that_a_server_decodes(served: Served) -> None:
    _, there = served.both()
    absent = {"transform": lambda row: row["absent"], "columns": ["score"], "batch_size": 4}

    with pytest.raises(KeyError, match="absent") as caught:
        list(there.loader(**absent, decode_on="server"))
    assert any("of row" in note for note in caught.value.__notes__)


def test_what_a_server_cannot_do_is_refused_when_the_loader_is_made(served: Served) -> None:
    here, there = served.both()

    with pytest.raises(InvalidInputError, match="behind one"):
        here.loader(batch_size=2, columns=["score"], decode_on="server")
    with pytest.raises(InvalidInputError, match="save the view"):
        there[[3, 1]].loader(batch_size=2, columns=["score"], decode_on="server")
    with pytest.raises(InvalidInputError, match="65,536"):
        list(there.loader(batch_size=70_000, columns=["score"], decode_on="server"))


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"places": [0, 1], "positions": [0, 41]}, "0 to 41 are not all among 41 rows"),
        ({"places": [5, 5], "positions": [0, 1]}, "a place is listed with two positions"),
        ({"places": [0, 1], "positions": [0]}, "differ in number"),
        ({"places": [], "positions": []}, "at least 1"),
        ({"places": [-1], "positions": [0]}, "greater than or equal to 0"),
        ({"places": [0], "positions": [1 << 70]}, "less than"),
        ({"places": [0], "positions": [0], "state": {}}, "Extra inputs"),
    ],
)
def test_rows_that_a_request_lists_wrongly_are_refused(
    served: Served, batch: dict[str, Any], told: str
) -> None:
    asked = {"columns": ["score"], "batches": [{"stop": 9, **batch}]}

    answer = httpx.post(
        f"{served.address}/v1/datasets/pets/stream",
        json=asked,
        headers={"Authorization": f"Bearer {served.token}"},
    )

    assert answer.status_code in (400, 422)
    assert told in answer.text


def test_a_request_lists_rows_or_begins_at_a_state(served: Served) -> None:
    batch = {"stop": 1, "places": [0], "positions": [0]}
    for more in ({"batch_size": 1}, {"global_batch_size": 4}, {"state": {"epoch": 0}}):
        answer = httpx.post(
            f"{served.address}/v1/datasets/pets/stream",
            json={"columns": ["score"], "batches": [batch], **more},
            headers={"Authorization": f"Bearer {served.token}"},
        )
        assert answer.status_code == 422
        assert "leave out state and the size of a batch" in answer.text


def test_a_damaged_sample_is_the_same_error_in_the_middle_of_a_stream(served: Served) -> None:
    ds = tl.create(str(served.lake / "pets-damaged"), {"image": tl.Image("jpeg")})
    whole = picture(1)
    ds.extend({"image": [whole] * 9 + [whole[: len(whole) * 3 // 4] + b"\xff\xd9"]})
    ds.commit("the last one is cut short")
    token = served.token_for("read:pets-damaged")
    there = tl.open(f"{served.address}/pets-damaged", token=token)
    loader = there.loader(batch_size=2, decode=IMAGE, decode_on="server")
    good = []

    with pytest.raises(CorruptSampleError, match="row 9"):
        good.extend(loader)
    skipping = there.loader(batch_size=2, decode=IMAGE, decode_on="server", on_error="skip")

    assert len(good) <= 4
    assert [len(batch["image"]) for batch in skipping] == [2, 2, 2, 2, 1]
    marked = there.loader(
        batch_size=2,
        columns=["image", "_valid"],
        decode=IMAGE,
        decode_on="server",
        on_error="skip",
    )
    assert [batch["_valid"].tolist() for batch in marked] == [[True, True]] * 4 + [[True, False]]


@pytest.mark.parametrize("given", [{}, {"shuffle": True}, {"weights": "score"}])
@pytest.mark.parametrize("columns", [["image", "score"], ["image", "score", "_valid"]])
def test_rows_that_a_server_skips_are_counted_and_logged_by_the_client(
    served: Served,
    columns: list[str],
    given: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    name = f"pets-{tmp_path.name}"
    ds = tl.create(str(served.lake / name), {"image": tl.Image("jpeg"), "score": "float32"})
    whole = picture(1)
    cut = whole[: len(whole) * 3 // 4] + b"\xff\xd9"
    ds.extend({"image": [cut if row % 3 == 1 else whole for row in range(14)], "score": [1.0] * 14})
    ds.commit("five are cut short")
    there = tl.open(f"{served.address}/{name}", token=served.token_for(f"read:{name}"))
    arguments = {"columns": columns, "decode": IMAGE, "batch_size": 4, "on_error": "skip", **given}

    told = []
    for rows, decode_on in ((ds, "client"), (there, "server")):
        loader = rows.loader(**arguments, decode_on=decode_on)
        for _ in range(2):
            caplog.clear()
            list(loader)
            own = [one.getMessage() for one in caplog.records if _is_of_client(one, decode_on)]
            told.append((loader.stats().skipped, sorted(own)))

    assert told[2:] == told[:2]
    if "weights" not in given:  # which draw rows more than once, or never
        assert told[0][0] == 5
        assert all(f"row {row} of" in told[0][1][at] for at, row in enumerate([1, 10, 13, 4, 7]))


def _is_of_client(record: logging.LogRecord, decode_on: str) -> bool:
    """Whether a record is the client's: its server logs in this process too, in other modules."""
    return record.msg == "skipped: %s" and (record.module == "streams") == (decode_on == "server")


WIDE_ROWS, WIDE_NBYTES = 64, 1 << 19


@pytest.fixture(scope="module")
def wide(served: Served) -> Path:
    """32 MiB: more than connections hold while nobody reads."""
    ds = tl.create(
        str(served.lake / "wide"), {"x": tl.Array("uint8", (WIDE_NBYTES,))}, durability="none"
    )
    values = np.random.default_rng(0).integers(0, 255, (WIDE_ROWS, WIDE_NBYTES), dtype=np.uint8)
    ds.extend({"x": values})
    ds.commit("wide")
    return served.lake / "wide"


def public(lake: Path, **options: Any) -> Settings:
    return Settings(url=str(lake), public_read=True, signing_key=b"k" * 16, **options)


def wide_loader(address: str) -> tl.loader.Loader:
    return tl.open(f"{address}/wide").loader(batch_size=2, decode_on="server", prefetch=1)


@pytest.mark.slow
def test_a_stream_of_a_server_that_stops_goes_on_at_the_next_one(
    served: Served, wide: Path
) -> None:
    expected = [digest_of(batch) for batch in tl.open(str(wide)).loader(batch_size=2)]
    first_app, next_app = create_app(public(served.lake)), create_app(public(served.lake))

    with reserved_port() as port, ThreadPoolExecutor(1) as thread:
        with listening(first_app, port=port) as address:
            batches = iter(wide_loader(address))
            first = [digest_of(next(batches)) for _ in range(3)]
            first_app.state.batch_streams.drain()
            rest = thread.submit(lambda: [digest_of(batch) for batch in batches])
        with listening(next_app, port=port):
            assert first + rest.result(WAIT_S) == expected


@pytest.mark.slow
def test_a_client_that_goes_leaves_its_place_to_others(served: Served, wide: Path) -> None:
    del wide
    with listening(create_app(public(served.lake, max_batch_streams=1))) as address:
        for _ in range(3):
            loader = wide_loader(address)
            next(iter(loader))
            loader.close()

        assert sum(len(batch["x"]) for batch in wide_loader(address)) == WIDE_ROWS


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_given_up_and_held_the_server_back(
    served: Served, wide: Path
) -> None:
    del wide
    settings = public(served.lake, max_batch_streams=1, stream_patience_s=0.3)
    request = {"batch_size": 2, "columns": ["x"]}
    received = 0

    with (
        listening(create_app(settings)) as address,
        httpx.stream(
            "POST", f"{address}/v1/datasets/wide/stream", json=request, timeout=WAIT_S
        ) as slow,
    ):
        pieces = slow.iter_raw()
        received += len(next(pieces))
        assert sum(len(batch["x"]) for batch in wide_loader(address)) == WIDE_ROWS
        with pytest.raises(httpx.RemoteProtocolError):
            received += sum(map(len, pieces))

    assert received < WIDE_ROWS * WIDE_NBYTES


def test_what_stands_for_null_is_put_there_by_the_server(served: Served) -> None:
    holes = tl.create(
        str(served.lake / "holes"),
        {
            "image": tl.Image("png", nullable=True),
            "label": tl.ClassLabel(["cat", "dog"], nullable=True),
            "vector": tl.Embedding(3, nullable=True),
            "tokens": tl.Array("int32", (None,), nullable=True),
            "note": tl.Text(nullable=True),
        },
        durability="none",
    )
    holes.append(
        {
            "image": np.zeros((4, 4, 3), np.uint8),
            "label": "cat",
            "vector": [1, 2, 3],
            "tokens": [1],
            "note": "a",
        }
    )
    holes.append(dict.fromkeys(holes.schema))
    holes.commit()
    here, there = served.both("holes")
    null = {"image": 7, "label": "dog", "vector": [7, 8, 9], "tokens": [5, 5], "note": ""}
    arguments = {"batch_size": 2, "decode": {"image": tl.decode.Resize(2, 2)}, "null": null}

    (local,) = here.loader(**arguments)
    (remote,) = there.loader(**arguments, decode_on="server")

    assert digest_of(local) == digest_of(remote)
    assert remote["note"] == ["a", ""]
    assert (remote["image"][1].max(), remote["label"][1]) == (7, 1)
    image = {"image": np.zeros((4, 4, 3), np.uint8)}
    unsent = there.loader(batch_size=2, null=null | image, decode_on="server")
    with pytest.raises(InvalidInputError, match="cannot be sent to a server"):
        list(unsent)
