"""Statistics over HTTP, against NumPy and against the queries that their bars become."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.stats import counting, histograms, row_budget, sampled_rows
from tests.unit.server.conftest import HOST, InProcess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.server.conftest import AppClient

STATISTICS = "/v1/datasets/pets/statistics"
TOKEN = "a-token-of-tests"
ROWS = 12
INT64, UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)
Found = Callable[[str], int]
LENGTHS = [i % 5 for i in range(ROWS)]


def every_kind() -> dict[str, tuple[Any, Any]]:
    """A type and its samples, for whatever can be measured; each but `none` in known numbers."""
    rng = np.random.default_rng(7)
    boxes = [np.abs(rng.normal(size=(n, 4))).astype(np.float32) for n in LENGTHS]
    words = [["night", "rain"][: i % 3] for i in range(ROWS)]
    return {
        "score": (
            tl.Scalar("float32", nullable=True),
            [None, np.nan, np.inf, -np.inf, *np.linspace(-1, 1, 8)],
        ),
        "half": (tl.Scalar("float16"), [0.1 * i for i in range(ROWS)]),
        "brain": (tl.Scalar("bfloat16"), [0.1 * i for i in range(ROWS)]),
        "wide": (tl.Scalar("int64"), [INT64.min, INT64.max, *range(10)]),
        "count": (tl.Scalar("uint64"), [UINT64.max, *range(11)]),
        "order": (tl.Scalar("int8"), [i - 6 for i in range(ROWS)]),
        "constant": (tl.Scalar("int32"), [7] * ROWS),
        "none": (tl.Scalar("float64", nullable=True), [None] * ROWS),
        "ok": (tl.Bool(nullable=True), [None, *([True, False, True] * 4)[:11]]),
        "at": (
            tl.Timestamp("us", "UTC"),
            [f"2026-0{1 + i % 9}-0{1 + i % 7}T00:00Z" for i in range(ROWS)],
        ),
        "caption": (tl.Text(nullable=True), [None, "", *(f"é{'x' * i}" for i in range(10))]),
        "split": (tl.Text(), ["train", "train", "test", "it's"] * 3),
        "words": (tl.Tags(), words),
        "meta": (tl.Json(), [{"a": i} for i in range(ROWS)]),
        "blob": (tl.Bytes(), [b"x" * i for i in range(ROWS)]),
        "id": (tl.Uuid(), ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"] * ROWS),
        "items": (tl.Sequence("float32"), [[0.5] * n for n in LENGTHS]),
        "vector": (tl.Embedding(3), rng.normal(size=(ROWS, 3)).astype(np.float32)),
        "walk": (
            tl.Array("float32", (None, None), nullable=True),
            [None, *(np.ones((n, 2 + n)) for n in LENGTHS[1:])],
        ),
        "flags": (tl.Array("bool", (2, 2)), rng.random((ROWS, 2, 2)) > 0.5),
        "waves": (tl.Array("complex64", (2,)), np.zeros((ROWS, 2))),
        "boxes": (tl.BBox("xyxy"), boxes),
        "labels": (
            tl.ClassLabel(["cat", "dog", "it's"], per="boxes"),
            [[k % 2 for k in range(n)] for n in LENGTHS],
        ),
        "points": (tl.Keypoints(["a"]), [np.zeros((n, 1, 3)) for n in LENGTHS]),
        "outlines": (tl.Polygon(), [[[[0, 0], [1, 0], [1, 1]]] * n for n in LENGTHS]),
        "inside": (tl.BinaryMask(), [np.eye(3 + n, dtype=bool) for n in LENGTHS]),
        "ground": (
            tl.SegmentMask(["road", "sky"]),
            [np.full((3, 4 + n), n % 2, np.uint8) for n in LENGTHS],
        ),
        "objects": (tl.InstanceMask(), [np.ones((n, 2, 3), dtype=bool) for n in LENGTHS]),
        "pose": (tl.Struct({"x": "float32"}), [{"x": i / 4} for i in range(ROWS)]),
    }


KINDS = [name if name != "pose" else "pose/x" for name in every_kind()]


@pytest.fixture(scope="module")
def kinds_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    given = every_kind()
    types = {name: kind for name, (kind, _) in given.items()}
    ds = tl.create(str(root / "kinds"), types, durability="none")
    ds.extend({name: samples for name, (_, samples) in given.items()})
    ds.commit("one of each")
    tl.create(str(root / "empty"), types, durability="none").commit("nothing")
    return root


@pytest.fixture(scope="module")
def kinds(kinds_path: Path) -> httpx.Client:
    settings = Settings(
        url=str(kinds_path), token=TOKEN, signing_key=b"k" * 16, static=kinds_path / "no-viewer"
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = InProcess(create_app(settings))
    return httpx.Client(transport=transport, base_url=HOST, headers=headers)


def ask(client: httpx.Client, tensor: str, dataset: str = "kinds", **params: str) -> dict[str, Any]:
    name = tensor.replace("/", "~")
    answer = client.get(f"/v1/datasets/{dataset}/statistics/{name}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def found(kinds_path: Path) -> Callable[[str], int]:
    """How many rows a condition finds."""
    ds = tl.open(str(kinds_path / "kinds"))
    return lambda condition: len(ds.query(f"WHERE {condition}"))


@pytest.mark.slow
@pytest.mark.parametrize("tensor", KINDS)
def test_a_bar_is_a_filter_that_finds_what_the_bar_counts(
    kinds: httpx.Client, found: Found, tensor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histograms, "MOST_BARS", 8)  # each is a query
    for one in ask(kinds, tensor)["histograms"]:
        assert one["values"] == sum(one["counts"]) + one["nans"] + one["infinities"]
        last = len(one["counts"]) - 1
        x, bounds = one["expression"], one["bounds"]
        for bar, count in enumerate(one["counts"]):
            parts = [
                f"{x} >= {bounds[bar]}",
                f"{x} {'<=' if bar == last else '<'} {bounds[bar + 1]}",
            ]
            if one["per"] == "row":
                assert found(" AND ".join(parts)) == count
            else:
                rows = found(f"ANY(LOGICAL_AND({', '.join(parts)}))")
                assert (rows == 0) == (count == 0)
                assert rows <= count


@pytest.mark.parametrize("tensor", KINDS)
def test_nulls_are_counted_of_every_kind(kinds: httpx.Client, found: Found, tensor: str) -> None:
    column = '"order"' if tensor == "order" else f'"{tensor}"'

    assert ask(kinds, tensor)["nulls"] == found(f"{column} IS NULL")


@pytest.mark.parametrize("tensor", KINDS)
def test_no_rows_have_statistics_of_every_kind(kinds: httpx.Client, tensor: str) -> None:
    nothing = ask(kinds, tensor, "empty")

    assert (nothing["rows"], nothing["counted"], nothing["nulls"]) == (0, 0, 0)
    assert all(one["counts"] == one["edges"] == [] for one in nothing["histograms"])
    assert all(one["count"] == 0 for one in (nothing["classes"] or {"entries": []})["entries"])


def test_shapes_are_those_of_numpy(kinds: httpx.Client) -> None:
    given = every_kind()
    titles = {
        "boxes": {"boxes in a row": LENGTHS},
        "walk": {
            "length of walk": [len(one) for one in given["walk"][1][1:]],
            "axis 1 of walk": [one.shape[1] for one in given["walk"][1][1:]],
        },
        "objects": {"objects in a row": LENGTHS, "height of objects": [2] * ROWS},
        "ground": {"width of ground": [one.shape[1] for one in given["ground"][1]]},
        "items": {"items of items": LENGTHS},
        "outlines": {"outlines of outlines": LENGTHS},
        "words": {"words of words": [len(one) for one in given["words"][1]]},
        "caption": {"characters of caption": [len(one) for one in given["caption"][1][1:]]},
        "blob": {"bytes of blob": [len(one) for one in given["blob"][1]]},
        "inside": {"area of inside": [int(one.sum()) for one in given["inside"][1]]},
    }
    for tensor, wanted in titles.items():
        measured = {one["title"]: one for one in ask(kinds, tensor)["histograms"]}
        for title, truth in wanted.items():
            one = measured[title]
            assert one["counts"] == np.histogram(truth, [*one["edges"][:-1], np.inf])[0].tolist()
            assert (int(one["minimum"]), int(one["maximum"])) == (min(truth), max(truth))
            assert one["mean"] == pytest.approx(np.mean(truth))


def test_empty_samples_are_counted(kinds: httpx.Client, found: Found) -> None:
    empty = LENGTHS.count(0)

    assert ask(kinds, "boxes")["empty"] == empty == found("SIZE(boxes) = 0")
    assert ask(kinds, "items")["empty"] == empty == found("LENGTH(items) = 0")
    assert ask(kinds, "walk")["empty"] == found("SIZE(walk) = 0")
    assert ask(kinds, "caption")["empty"] == 1
    assert ask(kinds, "score")["empty"] is None


def test_values_that_lie_in_no_bar_are_counted_beside(kinds: httpx.Client) -> None:
    [score] = ask(kinds, "score")["histograms"]

    assert (score["values"], score["nans"], score["infinities"]) == (11, 1, 2)
    assert (score["minimum"], score["maximum"]) == ("-1", "1")


def test_extremes_of_integers_are_exact(kinds: httpx.Client) -> None:
    [wide], [count] = (ask(kinds, name)["histograms"] for name in ("wide", "count"))

    assert (wide["bounds"][0], wide["bounds"][-1]) == (str(INT64.min), str(INT64.max))
    assert count["maximum"] == count["bounds"][-1] == str(UINT64.max)


def test_a_constant_is_one_bar(kinds: httpx.Client) -> None:
    [constant] = ask(kinds, "constant")["histograms"]

    assert (constant["bounds"], constant["counts"]) == (["7", "8"], [ROWS])


def classes_of(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {one["name"]: (one["count"], one["rows"]) for one in answer["classes"]["entries"]}


def test_classes_are_counted_by_values_and_by_rows(kinds: httpx.Client, found: Found) -> None:
    labels = every_kind()["labels"][1]
    cats = sum(row.count(0) for row in labels), sum(0 in row for row in labels)
    dogs = sum(row.count(1) for row in labels), sum(1 in row for row in labels)

    assert classes_of(ask(kinds, "labels")) == {"cat": cats, "dog": dogs, "it's": (0, 0)}
    assert found("CONTAINS(labels, 'dog')") == dogs[1]


def test_words_texts_and_truth_values_are_classes(kinds: httpx.Client) -> None:
    assert classes_of(ask(kinds, "words")) == {"night": (8, 8), "rain": (4, 4)}
    assert classes_of(ask(kinds, "split")) == {"train": (6, 6), "test": (3, 3), "it's": (3, 3)}
    assert classes_of(ask(kinds, "ok")) == {"false": (4, 4), "true": (7, 7)}
    assert ask(kinds, "caption")["classes"] is None  # all are different


def test_pixels_of_a_segmentation_are_classes(kinds: httpx.Client) -> None:
    masks = every_kind()["ground"][1]
    sky = int(sum((one == 1).sum() for one in masks)), sum(bool((one == 1).any()) for one in masks)

    assert classes_of(ask(kinds, "ground"))["sky"] == sky


def test_classes_are_counted_over_all_their_values(client: httpx.Client) -> None:
    counts = client.get(f"{STATISTICS}/labels").json()

    assert (counts["rows"], counts["counted"], counts["classes"]["values"]) == (11, 11, 10)
    assert {name: count for name, (count, _) in classes_of(counts).items()} == {
        "cat": 3,
        "dog": 4,
        "bird": 3,
    }


def test_a_query_is_counted_by_itself(client: httpx.Client) -> None:
    query = {"tql": "WHERE CONTAINS(labels, 'cat')", "limit": 0}
    view = client.post("/v1/datasets/pets/query", json=query).json()["view"]

    counts = client.get(f"{STATISTICS}/labels", params={"view": view}).json()

    assert counts["rows"] == 3
    assert classes_of(counts)["cat"] == (3, 3)


def test_what_a_query_computes_is_counted(client: httpx.Client) -> None:
    query = {
        "tql": "SELECT LENGTH(boxes) AS n, COUNT(*) AS rows GROUP BY LENGTH(boxes)",
        "limit": 0,
    }
    view = client.post("/v1/datasets/pets/query", json=query).json()["view"]

    [n] = client.get(f"{STATISTICS}/n", params={"view": view}).json()["histograms"]

    assert (n["bounds"], n["counts"]) == (["0", "1", "2", "3"], [1, 1, 1])


def test_an_older_version_is_counted_by_itself(client: httpx.Client) -> None:
    measured = client.get(f"{STATISTICS}/image", params={"version": "main@1"}).json()

    assert (measured["rows"], measured["nulls"]) == (12, 1)
    heights, widths = measured["histograms"][:2]
    assert (heights["minimum"], heights["counts"]) == ("120", [11])
    assert (widths["title"], widths["minimum"]) == ("width of image", "160")


def test_an_answer_that_is_known_is_not_counted_again(client: httpx.Client) -> None:
    first = client.get(f"{STATISTICS}/score", params={"version": "main@2"})
    again = {"If-None-Match": first.headers["ETag"]}

    assert "immutable" in first.headers["Cache-Control"]
    assert (
        client.get(f"{STATISTICS}/score", headers=again, params={"version": "main@2"}).status_code
        == 304
    )


def test_a_part_of_the_rows_is_spread_over_all_and_says_how_many(
    kinds: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_budget, "MAX_ROWS", 4)
    monkeypatch.setattr(row_budget, "RUNS", 2)
    [order] = ask(kinds, "order")["histograms"]

    assert order["counted"] == order["values"] == 4
    assert [order["minimum"], order["maximum"]] == ["-6", "1"]  # rows 0, 1, 6 and 7


def test_elements_are_bounded_by_how_many_a_row_has(
    kinds: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_ELEMENTS", 9)
    _, elements = ask(kinds, "vector")["histograms"]

    assert (elements["counted"], elements["values"]) == (3, 9)


def test_rows_that_do_not_fit_together_are_read_one_after_another(
    kinds: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask(kinds, "boxes")
    monkeypatch.setattr(sampled_rows, "ELEMENTS_AT_ONCE", 7)

    assert ask(kinds, "boxes") == whole


def test_counting_ends_when_it_takes_too_long(kinds_path: Path, connect: AppClient) -> None:
    settings = Settings(
        url=str(kinds_path),
        token=TOKEN,
        signing_key=b"k" * 16,
        static=kinds_path / "no-viewer",
        max_query_s=1e-9,
    )
    answer = connect(settings, token=TOKEN).get("/v1/datasets/kinds/statistics/score")

    assert (answer.status_code, answer.json()["code"]) == (413, "query-limit")
