"""A saved view as a dataset of its own: what ``pets#big`` names."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tensorlake_server.lake.lake import Lake
from tests.support.serving import listening
from tests.unit.server.conftest import AppClient

Connect = Callable[..., httpx.Client]
BIG = "/v1/datasets/pets%23big"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """``pets``: ten rows, and the views ``big`` (three of them, two columns) and ``none``."""
    with tl.create(str(tmp_path / "lake/pets"), {"x": "int64", "note": tl.Text()}) as ds:
        ds.extend({"x": list(range(10)), "note": [f"note {i}" for i in range(10)]})
        ds.commit("rows")
        ds.query("SELECT x, x * 2 AS twice WHERE x > 6 ORDER BY x DESC").save("big")
        ds.where("x > 100").save("none")
    return tmp_path / "lake"


@pytest.fixture
def connected(lake: Path, connect: AppClient) -> Connect:
    """Makes clients of one scope each, of servers with settings of their own."""

    def make(scope: str, **settings: Any) -> httpx.Client:
        auth = lake.parent / "tokens.json"
        token, _ = create_token(
            auth, name="ana", scopes=[scope], expires=None, now=datetime.now(UTC)
        )
        return connect(Settings(url=str(lake), auth=auth, write=True, **settings), token=token)

    return make


def column(client: httpx.Client, dataset: str, name: str) -> list[Any]:
    return [row[name] for row in client.get(f"{dataset}/rows").json()["rows"]]


def test_a_view_is_a_dataset_with_its_rows_and_columns_only(connected: Connect) -> None:
    client = connected("read:pets#big")

    info = client.get(BIG).json()

    assert (info["rows"], [one["name"] for one in info["tensors"]]) == (3, ["x", "twice"])
    assert (column(client, BIG, "_row"), column(client, BIG, "x")) == ([0, 1, 2], [9, 8, 7])
    assert column(client, BIG, "twice") == [18, 16, 14]
    assert info["url"] is None


def test_statistics_are_of_the_rows_of_the_view(connected: Connect) -> None:
    found = connected("read:pets#big").get(f"{BIG}/statistics/x").json()

    assert (found["rows"], found["histograms"][0]["minimum"]) == (3, "7")


def test_only_the_view_is_listed_and_found(connected: Connect) -> None:
    client = connected("read:pets#big")

    listed = client.get("/v1/datasets").json()["datasets"]
    found = {
        name: client.get(f"/v1/datasets/{name}").status_code for name in ("pets", "pets%23none")
    }

    assert listed == [{"name": "pets#big"}]
    assert found == {"pets": 404, "pets%23none": 404}


def test_a_pattern_names_every_view_and_not_the_dataset(connected: Connect) -> None:
    client = connected("read:*#*")

    listed = client.get("/v1/datasets").json()["datasets"]

    assert [one["name"] for one in listed] == ["pets#big", "pets#none"]
    assert client.get("/v1/datasets/pets%23none/rows").json()["total"] == 0


def test_who_reads_the_dataset_reads_its_views(connected: Connect) -> None:
    client = connected("read:pets")

    assert column(client, BIG, "x") == [9, 8, 7]
    assert client.get("/v1/datasets").json()["datasets"] == [{"name": "pets"}]


def test_a_view_is_not_changed_by_who_writes_the_dataset(connected: Connect) -> None:
    client = connected("admin:pets")

    refused = [
        client.post(f"{BIG}/transactions", json={"operations": [{"op": "delete", "rows": [0]}]}),
        client.post(f"{BIG}/tags", json={"name": "v", "at": "main"}),
        client.put(f"{BIG}/objects/tags/v", content=b"{}"),
        client.delete(BIG, params={"confirm": "pets#big"}),
        client.post("/v1/datasets", json={"name": "pets#new", "schema": {"x": "int64"}}),
    ]

    assert [one.status_code for one in refused] == [403] * 5
    assert column(client, BIG, "x") == [9, 8, 7]


def test_a_deleted_view_is_gone_at_once_with_its_copy(connected: Connect, lake: Path) -> None:
    client = connected("read:pets#big")
    query = client.post(f"{BIG}/query", json={"tql": "WHERE x > 7"}).json()["view"]

    with tl.open(str(lake / "pets")) as ds:
        ds.delete_tag("big")

    after = [
        client.get(f"{BIG}/rows"),
        client.get(f"{BIG}/rows?version=main@1"),
        client.get(f"{BIG}/rows", params={"view": query}),
        client.get(f"{BIG}/objects/branches/main/HEAD"),
    ]
    assert [one.status_code for one in after] == [404] * 4
    assert client.get("/v1/datasets").json()["datasets"] == []


def test_a_view_of_a_dataset_that_was_created_again_is_its_new_one(
    connected: Connect, lake: Path
) -> None:
    client = connected("read:pets#big")
    assert column(client, BIG, "x") == [9, 8, 7]

    shutil.rmtree(lake / "pets")
    with tl.create(str(lake / "pets"), {"x": "int64"}) as ds:
        ds.extend({"x": [1, 2]})
        ds.commit("rows")
        ds.where("x > 1").save("big")

    assert column(client, BIG, "x") == [2]


def copies_of(folder: str) -> list[list[int]]:
    """The values of ``x`` in each copy."""
    found: list[list[int]] = []
    for name in tl.list(folder):
        with tl.open(f"{folder}/{name}", read_only=True) as copy:
            found.append(copy["x"][:].tolist())
    return found


def test_copies_of_a_server_that_ended_go_with_their_views(connected: Connect, lake: Path) -> None:
    folder = str(lake.parent / "derived")
    client = connected("read:pets#*", derived=folder)
    column(client, BIG, "x")
    column(client, "/v1/datasets/pets%23none", "x")
    with tl.open(str(lake / "pets")) as ds:
        ds.delete_tag("big")
    later = Lake(Settings(url=str(lake), derived=folder))

    assert sorted(copies_of(folder)) == [[], [9, 8, 7]]
    later.remove_old_copies()

    assert copies_of(folder) == [[]]


def test_copies_with_forgotten_rows_go(connected: Connect, lake: Path) -> None:
    folder = str(lake.parent / "derived")
    column(connected("read:pets#*", derived=folder), BIG, "x")
    with tl.open(str(lake / "pets")) as ds:
        ds.forget("x = 8")

    Lake(Settings(url=str(lake), derived=folder)).remove_old_copies()

    assert copies_of(folder) == []


def test_only_copies_are_removed_from_the_folder(connected: Connect, lake: Path) -> None:
    folder = lake.parent / "derived"
    column(connected("read:pets#*", derived=str(folder)), BIG, "x")
    for name in ("mine", "0" * 64):  # a dataset of somebody, and a copy that is being made
        tl.create(str(folder / name), {"x": "int64"}).close()

    Lake(Settings(url=str(lake), derived=str(folder))).remove_old_copies()

    assert sorted(copies_of(str(folder))) == [[], [], [9, 8, 7]]


def test_copies_of_other_servers_count(connected: Connect, lake: Path) -> None:
    folder = str(lake.parent / "derived")
    column(connected("read:pets#*", derived=folder), BIG, "x")
    (copy,) = tl.list(folder)
    with tl.open(f"{folder}/{copy}") as made:
        room = made.nbytes + 10
    with tl.open(str(lake / "pets")) as ds:
        ds.where("x < 3").save("small")
    later = Lake(Settings(url=str(lake), derived=folder, derived_nbytes=room))
    later.remove_old_copies()

    with pytest.raises(tl.QueryLimitError, match="derived_nbytes"):
        later.open("pets#small")


def test_a_server_removes_copies_when_it_starts(connected: Connect, lake: Path) -> None:
    folder = str(lake.parent / "derived")
    column(connected("read:pets#*", derived=folder), BIG, "x")
    with tl.open(str(lake / "pets")) as ds:
        ds.delete_tag("big")

    ends = time.monotonic() + 30
    with listening(create_app(Settings(url=str(lake), derived=folder, token="t"))):
        while tl.list(folder):
            assert time.monotonic() < ends, "the copy is not removed"

    assert copies_of(folder) == []


def test_later_rows_are_not_in_a_view(connected: Connect, lake: Path) -> None:
    with tl.open(str(lake / "pets")) as ds:
        ds.extend({"x": [50], "note": ["later"]})
        ds.commit("later")

    assert column(connected("read:pets#big"), BIG, "x") == [9, 8, 7]


def test_a_view_larger_than_the_room_for_copies_is_refused(connected: Connect) -> None:
    refused = connected("read:pets#big", derived_nbytes=1).get(f"{BIG}/rows")

    assert refused.status_code == 413
    assert "derived_nbytes" in refused.json()["detail"]


def test_readers_of_a_new_view_at_once_share_one_copy(connected: Connect) -> None:
    client = connected("read:pets#big")

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(column, [client] * 8, [BIG] * 8, ["_row_id"] * 8))

    assert found == [found[0]] * 8


def test_a_dataset_with_a_mark_in_its_name_is_not_served(connected: Connect, lake: Path) -> None:
    tl.create(str(lake / "odd#name"), {"x": "int64"}).close()

    client = connected("read")

    assert client.get("/v1/datasets").json()["datasets"] == [{"name": "pets"}]
    assert client.get("/v1/datasets/odd%23name").status_code == 404


def test_errors_do_not_name_the_place_of_the_copy(connected: Connect) -> None:
    client = connected("read:pets#big")
    client.get(f"{BIG}/rows")

    texts = [
        client.post(f"{BIG}/query", json={"tql": "SELECT nothing"}).text,
        client.get(f"{BIG}/rows?version=main@7").text,
        client.get(f"{BIG}/views/none").text,
        client.get(f"{BIG}/tensors/x/99").text,
    ]

    assert not [text for text in texts if "tensorlake-views-" in text]


def test_a_view_of_the_one_dataset_that_is_served(lake: Path, connect: AppClient) -> None:
    client = connect(Settings(url=str(lake / "pets"), token="t"), token="t")

    assert column(client, BIG, "x") == [9, 8, 7]


def test_servers_that_share_a_folder_share_the_copy(connected: Connect, lake: Path) -> None:
    folder = str(lake.parent / "derived")
    clients = [connected("read:pets#big", derived=folder) for _ in range(4)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(column, clients, [BIG] * 4, ["_row_id"] * 4))

    assert found == [found[0]] * 4
    assert len(tl.list(folder)) == 1


def test_errors_name_a_view_and_a_dataset_as_the_client_does(
    connected: Connect, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    client = connected("read:*", derived="derived")

    for name, path in (("pets#big", BIG), ("pets", "/v1/datasets/pets")):
        for asked in ("rows?columns=secret", "rows?version=nowhere", "statistics/secret"):
            refused = client.get(f"{path}/{asked}")

            assert refused.status_code == 404, refused.text
            assert str(lake.parent) not in refused.text
            assert f"{name!r} has no" in refused.json()["detail"]


def test_damage_is_named_without_the_place_of_the_data(connected: Connect, lake: Path) -> None:
    shape = {"image": tl.Image(), "clip": tl.Audio(), "x": "int64"}
    with tl.create(str(lake / "films"), shape) as ds:
        pixels = np.zeros((8, 8, 3), np.uint8)
        ds.extend({"image": [pixels], "clip": [(np.zeros(800, np.float32), 8000)], "x": [1]})
        ds.commit("rows")
        ds.branch("torn")
    for pack in (lake / "films/packs").rglob("*"):
        if pack.is_file():
            pack.unlink()
    for entry in (lake / "films/branches/torn").iterdir():
        entry.write_bytes(b"{")
    client = connected("read:*")

    cells = client.get("/v1/datasets/films/rows").text
    framed = client.post(
        "/v1/datasets/films/thumbnails", json={"tensor": "image", "rows": [0], "size": 32}
    ).text
    branches = client.get("/v1/datasets/films/branches").text

    assert '"$summary":"error"' in cells
    assert "of 'films' is missing" in cells
    assert "of 'films' is missing" in framed
    assert '"damaged"' in branches
    assert not [text for text in (cells, framed, branches) if str(lake.parent) in text]
