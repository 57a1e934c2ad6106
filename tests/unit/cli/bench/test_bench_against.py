"""tensorlake bench --against: the same rows by another loader, and whether it makes the same."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tests.unit.loader.conftest import fill_pets

pytest.importorskip("torch")

PICTURE = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
DATASETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ragged": ({"t": tl.Array("uint16", (None,))}, {"t": [np.arange(n % 5) for n in range(9)]}),
    "text": ({"t": tl.Text(nullable=True)}, {"t": [f"x{n}" if n else None for n in range(9)]}),
    "one row": ({"i": tl.Image("jpeg"), "n": "int64"}, {"i": [PICTURE], "n": [3]}),
    "masks": (
        {
            "i": tl.Image("png"),
            "m": tl.SegmentMask(["a", "b"], of="i"),
            "o": tl.InstanceMask(of="i"),
        },
        {
            "i": [PICTURE] * 4,
            "m": [PICTURE[:, :, 0] % 2] * 4,
            "o": [np.ones((2, 20, 30), np.bool_)] * 4,
        },
    ),
    "null pictures": (
        {"i": tl.Image("png", nullable=True), "n": tl.Scalar("float32", nullable=True)},
        {"i": [PICTURE, None] * 3, "n": [None, 1.5] * 3},
    ),
    "frames": ({"f": tl.Sequence(tl.Image("jpeg"))}, {"f": [[PICTURE] * 2, [PICTURE]]}),
    "objects": (
        {"j": tl.Json(), "b": tl.Bytes(), "g": tl.Tags()},
        {"j": [{"a": 1}] * 4, "b": [b"x"] * 4, "g": [["y", "z"]] * 4},
    ),
    "no rows": ({"t": tl.Text(), "i": tl.Image("jpeg")}, {}),
}


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> str:
    url = str(tmp_path_factory.mktemp("against") / "pets.tl")
    fill_pets(url).close()
    return url


def made(url: str, what: str) -> str:
    schema, columns = DATASETS[what]
    with tl.create(url, schema) as ds:
        if columns:
            ds.extend(columns)
        ds.commit(what)
    return url


@pytest.mark.parametrize("what", sorted(DATASETS))
def test_a_dataset_of_any_kind_streams(run, tmp_path, what):
    url = made(str(tmp_path / "some.tl"), what)

    answer = run("bench", url, "--decode", "8", "--json")

    assert answer.code == 0, answer.err
    rows = max(map(len, DATASETS[what][1].values()), default=0)
    assert [epoch["rows"] for epoch in json.loads(answer.out)["epochs"]] == [rows, rows]


@pytest.mark.parametrize("what", ["pets", *sorted(set(DATASETS) - {"no rows"})])
def test_torch_makes_the_same_batch_as_ours_of_any_kind_of_rows(tmp_path, pets, what):
    from tensorlake.cli.bench.run import BenchRun, digest_of
    from tensorlake.cli.bench.torch import Rows, Stack

    url = pets if what == "pets" else made(str(tmp_path / "some.tl"), what)
    asked = BenchRun(url, batch_size=16, side=8, shuffle=False)
    with asked.open() as (rows, arguments):
        with rows.torch(**arguments) as loader:
            ours = next(iter(loader))
            dataset, stack = Rows(rows, loader.columns), Stack(loader.columns)
        theirs = stack([dataset[n] for n in range(min(16, len(dataset)))])

    assert digest_of(theirs) == digest_of(ours)


@pytest.mark.slow  # several processes, each of which imports torch
def test_both_are_shown_beside_each_other_with_ratio_and_conditions(run, pets, tmp_path):
    page = tmp_path / "bench.html"
    columns = ("--columns", "image,boxes,label", "--decode", "16")

    answer = run("bench", pets, "--against", "torch", *columns, "--html", str(page), "--json")

    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    torch, ours = document["against"], document["epochs"]
    assert torch["name"] == "torch"
    assert torch["is_same_output"] is True
    assert [one["rows"] for one in torch["epochs"]] == [one["rows"] for one in ours]
    assert torch["ratios"] == [
        one["rows_per_s"] / other["rows_per_s"]
        for one, other in zip(ours, torch["epochs"], strict=True)
    ]
    assert "uint8 (60, 16, 16, 3)" in torch["conditions"]["batches"]
    assert "worker processes" in torch["conditions"]["torch"]
    text = page.read_text(encoding="utf-8")
    assert "torch&#x27;s" in text  # the table of both, escaped
    assert "<title>torch</title>" in text or "too short to plot" in text


@pytest.mark.slow  # several processes, each of which imports torch
def test_a_query_and_a_bound_of_batches_hold_for_both(run, pets):
    answer = run(
        *("bench", pets, "--query", "WHERE label = 'cat'", "--columns", "tokens"),
        *("--batch-size", "8", "--batches", "2", "--epochs", "1", "--against", "torch"),
    )

    assert answer.code == 0, answer.err
    assert "epoch 0: 16 rows in" in answer.out
    assert "ratio" in answer.out
    assert "tokens uint16 (8, 300); equal, compared" in answer.out


@pytest.mark.slow  # several processes, each of which imports torch
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("webdataset", "webdataset"),
        ("mds", "streaming"),
        ("litdata", "litdata"),
        ("lance", "lance"),
    ],
)
def test_other_formats_stream_the_same_rows(run, pets, name, module):
    pytest.importorskip(module)
    small = ("--decode", "16", "--batch-size", "16", "--workers", "2", "--epochs", "1")

    answer = run("bench", pets, "--against", name, *small, "--json")

    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["against"]["is_same_output"] is True
    ours = [one["rows"] for one in document["epochs"]]
    assert [one["rows"] for one in document["against"]["epochs"]] == ours
    assert "written in" in document["against"]["conditions"][name]


@pytest.mark.parametrize("what", ["pets", *sorted(set(DATASETS) - {"no rows"})])
def test_a_record_of_a_format_gives_the_same_batch(tmp_path, pets, what):
    from tensorlake.cli.bench.peers import Collate
    from tensorlake.cli.bench.run import BenchRun, digest_of
    from tensorlake.cli.bench.torch import Rows

    url = pets if what == "pets" else made(str(tmp_path / "some.tl"), what)
    asked = BenchRun(url, batch_size=16, side=8, shuffle=False)
    collate = pickle.loads(pickle.dumps(Collate.of(asked)))  # as a spawned worker has it
    with asked.open() as (rows, arguments):
        with rows.torch(**arguments) as loader:
            ours = next(iter(loader))
        stored = Rows(rows, collate.columns)
        places = range(min(16, len(stored)))
        records = [collate.layout.record(stored.cells(place)) for place in places]

    assert digest_of(collate(records)) == digest_of(ours)


def test_a_library_that_is_not_installed_is_named(run, pets, monkeypatch):
    from tensorlake.cli.bench import against

    known = against.find_spec
    monkeypatch.setattr(against, "find_spec", lambda name: known(name) if name == "torch" else None)

    answer = run("bench", pets, "--against", "mds")

    assert answer.code == 1
    assert "bench --against mds needs mosaicml-streaming, which is not installed" in answer.err
    assert "pip install mosaicml-streaming" in answer.err


def test_an_unknown_opponent_is_wrong_usage_and_the_known_are_named(run, pets):
    answer = run("bench", pets, "--against", "tprch")

    assert answer.code == 2
    assert "unknown --against 'tprch'; did you mean 'torch'?" in answer.err
    assert "torch: a torch Dataset" in answer.err


def test_a_dataset_in_memory_cannot_be_read_by_fresh_processes(run):
    url = made("memory://bench-against", "text")

    answer = run("bench", url, "--against", "torch")

    assert answer.code == 1
    assert "new processes" in answer.err
    assert "tl.copy" in answer.err


def test_what_cannot_be_opened_is_said_once_and_without_a_traceback(run, tmp_path: Path):
    answer = run("bench", str(tmp_path / "nothing.tl"), "--against", "torch")

    assert answer.code == 1
    assert answer.err.startswith("DatasetNotFoundError")
    assert "Traceback" not in answer.err


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(run, pets, tmp_path):
    answer = run("bench", pets, "--html", str(tmp_path / "missing" / "bench.html"))

    assert answer.code == 2
    assert "not found" in answer.err
    assert answer.out == ""
