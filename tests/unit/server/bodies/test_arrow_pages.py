"""Pages of rows as Arrow: every kind of column, with NULLs, without rows, and long ones."""

from __future__ import annotations

import gc
import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.types.base.column import UniformColumn
from tensorlake_server.bodies.arrow import write_npz
from tensorlake_server.bodies.columns import TypedColumn
from tensorlake_server.http.chunked_body import MESSAGE_NBYTES
from tensorlake_server.settings.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
ROWS = "/v1/datasets/kinds/rows"
TEXTS = ["", "näïve", None, "🦜 and 雪", "x" * 5000]
VALUES: dict[str, list[Any]] = {
    "text": TEXTS,
    "json": [{"é": [1, None]}, [], None, "雪", 5],
    "blob": [b"", b"\x00\xff", None, b"abc", bytes(100)],
    "vector": [[1, 2, 3], [4, 5, 6], None, [7, 8, 9], [0, 0, 0]],
    "square": [[[1, 2], [3, 4]], None, [[5, 6], [7, 8]], [[0, 0], [0, 0]], None],
    "flags": [[True, False], None, [False, False], [True, True], [False, True]],
    "walk": [[1.5], [], None, [2.5, 3.5], []],
    "tags": [["a"], [], ["b", "a"], ["b"], []],
    "number": [1, None, 3, 4, 5],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arrow")
    schema = {
        "text": tl.Text(nullable=True),
        "json": tl.Json(nullable=True),
        "blob": tl.Bytes(nullable=True),
        "vector": tl.Array("float32", (3,), nullable=True),
        "square": tl.Array("int64", (2, 2), nullable=True),
        "flags": tl.Array("bool", (2,), nullable=True),
        "walk": tl.Array("float64", (None,), nullable=True),
        "tags": tl.ClassLabel(["a", "b"], multi=True),
        "number": tl.Scalar("int32", nullable=True),
    }
    kinds = tl.create(str(folder / "kinds"), schema, durability="none")
    kinds.extend(VALUES)
    kinds.commit()
    waves = tl.create(str(folder / "waves"), {"z": tl.Array("complex64", (2,))}, durability="none")
    waves.extend({"z": np.ones((2, 2), np.complex64)})
    waves.commit()
    long = tl.create(str(folder / "long"), {"x": tl.Array("uint8", (1 << 16,))}, durability="none")
    long.extend({"x": np.arange(100 << 16, dtype=np.uint32).astype(np.uint8).reshape(100, -1)})
    long.commit()
    return folder


@pytest.fixture
def client(lake: Path, connect: AppClient) -> httpx.Client:
    return connect(Settings(url=str(lake), token=TOKEN), token=TOKEN)


def table(client: httpx.Client, path: str = ROWS, **params: Any) -> Any:
    answer = client.get(path, params=params, headers=ARROW)
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    read = pa.ipc.open_stream(answer.content).read_all()
    read.validate(full=True)
    return read


@pytest.mark.parametrize("name", ["text", "blob", "walk", "tags", "number"])
def test_values_and_nulls_are_those_of_the_dataset(client: httpx.Client, name: str) -> None:
    assert table(client, columns=name)[name].to_pylist() == VALUES[name]


@pytest.mark.parametrize("name", ["vector", "square", "flags"])
def test_arrays_of_one_shape_are_tensors_with_nulls_among_them(
    client: httpx.Client, name: str
) -> None:
    column = table(client, columns=name)[name]

    assert list(column.type.shape) == list(np.shape(VALUES[name][0]))
    flat = [None if one is None else np.ravel(one).tolist() for one in VALUES[name]]
    assert column.combine_chunks().storage.to_pylist() == flat


def test_json_is_its_text(client: httpx.Client) -> None:
    assert table(client, columns="json")["json"].to_pylist()[1:4] == ["[]", None, '"雪"']


def test_a_page_without_rows_has_the_columns_of_the_others(client: httpx.Client) -> None:
    first, beyond = table(client), table(client, offset=1000)

    assert beyond.num_rows == table(client, limit=0).num_rows == 0
    assert beyond.schema == first.schema


def test_a_page_has_the_same_columns_with_and_without_nulls(client: httpx.Client) -> None:
    assert table(client, offset=3, limit=1).schema == table(client, offset=1, limit=2).schema


def test_a_page_of_many_messages_is_whole(client: httpx.Client) -> None:
    column = table(client, "/v1/datasets/long/rows", limit=100, offset=1)["x"].combine_chunks()

    assert column.nbytes > MESSAGE_NBYTES
    expected = np.arange(100 << 16, dtype=np.uint32).astype(np.uint8).reshape(100, -1)
    assert np.array_equal(column.to_numpy_ndarray(), expected[1:])


def test_what_arrow_does_not_know_is_said_and_npz_has_it(client: httpx.Client) -> None:
    refused = client.get("/v1/datasets/waves/rows", headers=ARROW)
    given = client.get("/v1/datasets/waves/rows", headers={"Accept": "application/x-npz"})

    assert refused.json()["code"] == "unsupported-feature"
    with np.load(io.BytesIO(given.content), allow_pickle=False) as arrays:
        assert arrays["z"].tolist() == [[1, 1], [1, 1]]


def test_an_npz_page_that_nobody_reads_is_collected_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []  # Python 3.13 says what older ones keep to themselves
    monkeypatch.setattr(sys, "unraisablehook", lambda one: told.append(str(one.exc_value)))
    kind: Any = tl.Array("int64", ())
    page: list[Any] = write_npz({"x": TypedColumn(kind, UniformColumn(np.arange(1000)))})
    page.append(page)  # as the traceback of a broken connection holds it

    del page
    gc.collect()

    assert told == []


def test_a_fixed_page_is_not_sent_twice(client: httpx.Client) -> None:
    params = {"version": "main@1"}
    first = client.get(ROWS, params=params, headers=ARROW)

    again = client.get(
        ROWS, params=params, headers={**ARROW, "If-None-Match": first.headers["ETag"]}
    )

    assert (again.status_code, again.content) == (304, b"")
