"""Packed rows and windows that continue with other rows: what is kept, and what is dropped."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

import tensorlake as tl


def _documents(lengths):
    return [np.full(length, at + 1, np.uint16) for at, length in enumerate(lengths)]


@pytest.fixture
def corpus(tmp_path):
    ds = tl.create(tmp_path / "corpus.tl", {"tokens": tl.Array("uint16", (None,)), "x": "int64"})
    ds.extend({"tokens": _documents([5, 3, 9, 2, 7, 4, 6]), "x": range(7)})
    ds.commit("seven")
    return ds


@pytest.fixture
def episodes(tmp_path):
    ds = tl.create(tmp_path / "episodes.tl", {"e": "int64", "x": "int64"})
    ds.extend({"e": [0] * 8 + [1] * 6, "x": range(14)})
    ds.commit("two")
    return ds


def _first(loader):
    with_one = iter(loader)
    batch = next(with_one)
    with_one.close()
    return batch


def _tokens(loader):
    return [one for batch in loader for one in batch["tokens"].tolist()]


def _valid(batch):
    return batch["tokens"][batch.get("_valid", slice(None))].tolist()


def _windows(loader):
    return [one for batch in loader for one in batch["x"].tolist()]


def test_a_document_under_way_continues_at_its_next_token(corpus):
    loader = corpus.pack("tokens", 4, eos=0).loader(batch_size=2)
    assert _first(loader)["tokens"].tolist() == [[1, 1, 1, 1], [1, 0, 2, 2]]

    loader.advance(where="x != 4")

    assert _tokens(loader) == [
        [2, 0, 3, 3],
        [3, 3, 3, 3],
        [3, 3, 3, 0],
        [4, 4, 0, 6],
        [6, 6, 6, 0],
        [7, 7, 7, 7],
        [7, 7, 0, 0],
    ]


def test_a_document_under_way_that_is_gone_ends_where_it_was_cut(corpus):
    loader = corpus.pack("tokens", 4, eos=0).loader(batch_size=2)
    _first(loader)

    loader.advance(where="x != 1")

    assert _tokens(loader)[0] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("length", "then"), [(8, [2, 2, 2, 2]), (3, [2, 0, 3, 3]), (2, [0, 3, 3, 3]), (1, [3, 3, 3, 3])]
)
def test_a_document_under_way_continues_in_its_new_tokens(corpus, length, then):
    loader = corpus.pack("tokens", 4, eos=0).loader(batch_size=2)
    assert _first(loader)["tokens"].tolist() == [[1, 1, 1, 1], [1, 0, 2, 2]]

    corpus["tokens"][1] = np.full(length, 2, np.uint16)
    corpus.commit("corrected")
    loader.advance(corpus.version)

    assert _tokens(loader)[0] == then


def test_whole_documents_that_have_not_come_are_placed_again(corpus):
    loader = corpus.pack("tokens", 9, eos=0, split=False).loader(batch_size=1)
    given = _first(loader)["tokens"].tolist()

    loader.advance(where="x != 2")
    rest = _tokens(loader)

    of = [token for one in (*given, *rest) for token in one if token]
    assert given == [[1, 1, 1, 1, 1, 0, 4, 4, 0]]
    assert sorted(of) == sorted(np.concatenate(_documents([5, 3, 0, 2, 7, 4, 6])).tolist())
    assert len(rest) == 3  # 8, 7 and 5 + 4 with eos


@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@pytest.mark.parametrize("split", [True, False])
def test_a_run_of_packed_rows_skips_documents_and_is_made_again(corpus, split):
    packed = corpus.pack("tokens", 4, eos=0, split=split)
    seen = []
    with corpus.run("packed") as run:
        loader = run.loader(packed, batch_size=3, shuffle=True, seed=3)
        seen.append(_first(loader)["tokens"].tolist())
        run.skip(corpus.query("WHERE x = 2 OR x = 5"))
        state = loader.state_dict()
        seen += [batch["tokens"].tolist() for batch in loader]

    again = corpus.runs["packed"].of(packed)
    assert [again.batch(step)["tokens"].tolist() for step in range(len(seen))] == seen
    assert not {3, 6} & {token for batch in seen[1:] for one in batch for token in one}
    rows = {row for step in range(len(seen)) for row in again.rows_at(step).tolist()}
    assert rows >= {0, 1, 3, 4, 6}
    parts = []
    for rank in range(3):
        other = packed.loader(global_batch_size=3, rank=rank, world_size=3, seed=3, shuffle=True)
        other.load_state_dict(state)
        parts.append([_valid(batch) for batch in other])
    assert [[*chain(*ranks)] for ranks in zip(*parts, strict=True)] == seen[1:]


def test_windows_that_touch_a_skipped_row_do_not_come(episodes):
    windows = episodes.windows(["x"], by="e", size=3, step=1)
    with episodes.run("windows") as run:
        loader = run.loader(windows, batch_size=2, shuffle=False)
        first = _first(loader)["x"].tolist()
        run.skip(episodes.query("WHERE x = 4"))
        rest = _windows(loader)
        following = _windows(loader)

    assert first == [[0, 1, 2], [1, 2, 3]]
    assert rest == [[5, 6, 7], [8, 9, 10], [9, 10, 11], [10, 11, 12], [11, 12, 13]]
    assert following[:4] == [[0, 1, 2], [1, 2, 3], [2, 3, 5], [3, 5, 6]]
    again = episodes.runs["windows"].of(windows)
    assert again.batch(1)["x"].tolist() == rest[:2]
    assert again.rows_at(1).tolist() == [5, 6, 7, 8, 9, 10]


def test_windows_come_with_rows_that_are_new(episodes):
    loader = episodes.windows(["x"], by="e", size=3, step=2).loader(batch_size=2)
    assert _first(loader)["x"].tolist() == [[0, 1, 2], [2, 3, 4]]

    episodes.extend({"e": [0, 1, 2, 2, 2], "x": range(20, 25)})
    episodes.commit("longer")
    loader.advance(episodes.version)

    rest = _windows(loader)
    assert rest == [[4, 5, 6], [8, 9, 10], [10, 11, 12], [6, 7, 20], [12, 13, 21], [22, 23, 24]]


def test_a_kept_window_starts_where_its_first_row_is_now(episodes):
    loader = episodes.windows(["x"], by="e", size=3, step=3, tail="keep").loader(batch_size=1)
    _first(loader)

    loader.advance(where="x != 5")
    batches = [(int(one["_start"][0]), one["x"][0].tolist()) for one in loader]

    assert batches[0] == (5, [6, 7])
    assert batches[1:] == [(0, [8, 9, 10]), (3, [11, 12, 13])]


def test_boxes_of_a_volume_come_once_and_those_of_a_resized_one_where_they_are_new(tmp_path):
    tiled = tl.Array("int64", (None, None), tiles=(2, 2))
    ds = tl.create(tmp_path / "volumes.tl", {"x": "int64", "own": tiled})
    ds.extend({"x": [0, 1], "own": [np.arange(16).reshape(4, 4), np.arange(16).reshape(4, 4)]})
    ds.commit("two")
    loader = ds.windows(["x", "own"], size=(2, 2)).loader(batch_size=5)
    given = _first(loader)
    assert given["_start"].tolist() == [[0, 0], [0, 2], [2, 0], [2, 2], [0, 0]]

    ds["own"][1] = np.arange(24).reshape(4, 6)
    ds.commit("wider")
    loader.advance(ds.version)
    rest = [
        (int(x), start, own.tolist())
        for batch in loader
        for x, start, own in zip(batch["x"], batch["_start"].tolist(), batch["own"], strict=True)
    ]

    assert [start for _, start, _ in rest] == [[0, 2], [2, 0], [2, 2], [0, 4], [2, 4]]
    assert rest[-1] == (1, [2, 4], [[16, 17], [22, 23]])


def test_orders_of_units_without_a_rest_are_refused(corpus, episodes):
    loaders = {
        "rows that weights= draws may come again": corpus.pack("tokens", 4).loader(
            batch_size=1, weights="x"
        ),
        "rows that weights= draws": episodes.windows(["x"], by="e", size=2).loader(
            batch_size=1, weights="x"
        ),
    }
    for match, loader in loaders.items():
        _first(loader)
        with pytest.raises(tl.InvalidInputError, match=match):
            loader.advance(corpus.version)


def test_a_state_of_other_sequences_is_refused(corpus):
    loader = corpus.pack("tokens", 4).loader(batch_size=1)
    _first(loader)
    loader.advance(where="x > 0")

    for other in (corpus.pack("tokens", 5).loader(batch_size=1), corpus.loader(batch_size=1)):
        with pytest.raises(tl.StateMismatchError, match="another selection"):
            other.load_state_dict(loader.state_dict())
