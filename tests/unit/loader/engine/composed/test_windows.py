"""``windows()``: entries of a batch, decoding, states, and refusals."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    StateMismatchError,
    TensorNotFoundError,
)


@pytest.fixture(scope="module")
def steps():
    """Three episodes, of 5, 4 and 1 steps, whose rows are not adjacent."""
    ds = tl.create(
        "memory://loader-windows",
        {
            "episode": "str",
            "x": "float32",
            "frame": tl.Image("png"),
            "signal": tl.Array("int16", (None,)),
            "ragged": tl.Array("int16", (None, None)),
            "maybe": tl.Array("int16", (None,), nullable=True),
            "other": tl.Array("int16", (None,)),
        },
    )
    rows = range(10)
    ds.extend(
        {
            "episode": ["ab"[row % 2] if row < 9 else "c" for row in rows],
            "x": [float(row) for row in rows],
            "frame": [np.full((8, 8, 3), row, np.uint8) for row in rows],
            "signal": [np.arange(row, dtype=np.int16) for row in rows],
            "ragged": [np.zeros((row, row), np.int16) for row in rows],
            "maybe": [None if row == 9 else np.arange(row, dtype=np.int16) for row in rows],
            "other": [np.arange(row + (row == 5), dtype=np.int16) for row in rows],
        }
    )
    ds.commit("10 steps")
    return ds


def test_frames_are_decoded_once_a_batch(steps):
    windows = steps.windows(["frame", "x"], by="episode", size=3, step=1)
    loader = windows.torch(batch_size=99, decode={"frame": tl.decode.Resize(4, 4)}, layout="NCHW")

    (batch,) = loader

    assert tuple(batch["frame"].shape) == (5, 3, 3, 4, 4)
    assert batch["frame"][:, :, 0, 0, 0].tolist() == batch["x"].tolist()
    assert batch["_row"].tolist() == [0, 2, 4, 1, 3]
    assert loader.stats().pictures == 9


def test_ragged_samples_of_a_window_are_listed_or_padded(steps):
    windows = steps.windows("signal", by="episode", size=2, step=4)

    (listed,) = windows.torch(batch_size=9)
    (padded,) = windows.loader(batch_size=9, collate={"signal": "pad"})

    assert hasattr(listed["signal"][0][0], "device")
    assert [[own.tolist() for own in pair] for pair in listed["signal"]] == [
        [[], [0, 1]],
        [[0], [0, 1, 2]],
    ]
    assert padded["signal"].shape == padded["signal_mask"].shape == (2, 2, 3)
    assert padded["signal_mask"].sum(axis=2).tolist() == [[0, 2], [1, 3]]


def test_values_without_an_axis_come_once_a_window(steps):
    windows = steps.windows(["signal", "x", "episode"], size=4, step=4, tail="keep")

    (batch,) = windows.loader(batch_size=99)

    lengths = [min(4, row - start) for row in range(10) for start in range(0, row, 4)]
    assert [len(own) for own in batch["signal"]] == lengths
    assert batch["x"].tolist() == batch["_row"].tolist()
    assert batch["episode"] == ["ab"[row % 2] if row < 9 else "c" for row in batch["_row"]]


def test_null_arrays_have_no_windows(steps):
    assert len(steps.windows("maybe", size=9, tail="pad")) == 8
    assert len(steps.windows("maybe", size=9)) == 0
    assert list(steps.windows("maybe", size=9).loader(batch_size=2)) == []


def test_windows_show_what_they_are(steps):
    windows = steps.windows("signal", by="episode", size=2, step=1, tail="pad")
    loader = windows.torch(batch_size=3)

    assert repr(windows).startswith(
        "Windows of 'signal': 2 stride=1 step=1 tail=pad, from 10 rows of 'memory://loader-windows'"
    )
    assert "10 windows of rows by 'episode' (3 groups)" in loader.explain()
    assert "_mask         bool (2,) stacked" in repr(loader)
    assert loader.plan.rows_at([0, 4]) == [pytest.approx([0, 2]), pytest.approx([8])]


def test_a_computed_column_groups_rows_and_is_cut(steps):
    view = steps.query("SELECT x, x % 3 AS part ORDER BY x DESC")

    (batch,) = view.windows(["x", "part"], by="part", size=3).loader(batch_size=9)

    assert batch["x"].tolist() == [[9, 6, 3], [8, 5, 2], [7, 4, 1]]
    assert batch["part"].tolist() == [[0] * 3, [2] * 3, [1] * 3]


def test_an_epoch_may_give_the_first_windows_of_its_order_alone(steps):
    windows = steps.windows("x", by="episode", size=2, step=1)
    whole = windows.loader(batch_size=1, shuffle="full", seed=3)
    loader = windows.loader(batch_size=2, shuffle="full", seed=3, limit=3)

    epochs = [[x for batch in loader for x in batch["x"].tolist()] for _ in range(2)]

    assert len(loader) == 2
    assert epochs == [[batch["x"][0].tolist() for batch in whole][:3] for _ in range(2)]


def test_a_pickled_loader_goes_on_where_it_is(steps):
    loader = steps.windows("x", by="episode", size=2, step=1).loader(batch_size=3, shuffle="full")
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))

    assert [b["x"].tolist() for b in copy] == [b["x"].tolist() for b in batches]


def test_a_state_of_other_windows_is_refused(steps):
    def loader(**arguments):
        return steps.windows("x", **{"by": "episode", "size": 2, **arguments}).loader(batch_size=2)

    state = loader().state_dict()

    with pytest.raises(StateMismatchError, match=r"recorded 'windows by episode 2 .* given .* 3 "):
        loader(size=3).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="recorded 'not cut into windows'"):
        loader().load_state_dict(steps.loader(batch_size=2, columns=["x"]).state_dict())
    with pytest.raises(StateMismatchError, match="rows that are composed"):
        steps.loader(batch_size=2, columns=["x"]).load_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 0}, "size must be an integer from 1"),
        ({"size": 3, "stride": 1 << 62}, "stride must be an integer from 1"),
        ({"stride": 0}, "stride must be"),
        ({"step": -1}, "step must be"),
        ({"size": (96, 96)}, "windows\\(\\) of rows have one size"),
        ({"tail": "cut"}, "tail is 'drop', 'pad', 'keep' or 'shift'"),
        ({"by": "episodes"}, "'episodes', which is not a column.*did you mean 'episode'"),
        ({"columns": ["y"]}, "'y', which is not a column"),
        ({"columns": []}, "has no columns"),
        ({"columns": "x", "by": None}, r"none of 'x' is one\nfor windows of rows.*by='episode'"),
        ({"columns": "ragged", "by": None}, "varies along more than its first axis"),
        ({"by": "signal"}, "one value for each row"),
        ({"columns": ["signal", "other"], "by": None}, "have different lengths at place 5"),
    ],
)
def test_impossible_windows_are_refused(steps, arguments, words):
    with pytest.raises((InvalidInputError, TensorNotFoundError), match=words):
        len(steps.windows(**({"columns": "x", "by": "episode", "size": 2} | arguments)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": ["x"]}, "windows.columns=.* chose them"),
        ({"transform": dict}, "batch_transform="),
        ({"on_error": "skip"}, "without the damaged rows"),
        ({"collate": {"signal": "concat"}}, "'list' or 'pad'"),
        ({"decode": {"frame": tl.decode.RandomResizedCrop(4, 4)}}, "draws random numbers"),
        ({"decode": {"frame": [tl.decode.Resize(4, 4), tl.decode.Flip()]}}, "draws random numbers"),
        ({"batch_by": "tokens"}, "windows have one length"),
        ({"balance": "tokens"}, r"windows have one length\nleave balance= out"),
    ],
)
def test_arguments_that_would_break_windows_are_refused(steps, arguments, words):
    windows = steps.windows(["signal", "frame"], by="episode", size=2)

    with pytest.raises(InvalidInputError, match=words):
        windows.loader(batch_size=2, **arguments)


@pytest.mark.parametrize("collate", ["pad", "concat", tl.collate.Pad(1)])
def test_windows_of_different_lengths_are_not_collated(steps, collate):
    windows = steps.windows(["signal"], size=2, tail="keep")

    with pytest.raises(InvalidInputError, match=r"different lengths.*\n.*tail='pad'"):
        windows.loader(batch_size=2, collate={"signal": collate})

    padded = steps.windows(["signal"], size=2, tail="pad").loader(batch_size=2)
    assert next(iter(padded))["_mask"].shape == (2, 2)


def test_rows_of_windows_of_different_lengths_are_padded(steps):
    windows = steps.windows("signal", by="episode", size=2, step=2, tail="keep")

    batch = next(iter(windows.loader(batch_size=9, collate={"signal": "pad"})))

    assert all(one.ndim == 2 for one in batch["signal"])


@pytest.mark.parametrize("tail", ["drop", "pad", "keep"])
@pytest.mark.parametrize("shape", [(6,), (None,), (None, 2)])
def test_steps_convert_the_numbers_of_windows_of_arrays(shape, tail):
    inner = shape[1:]
    first = np.arange(6 * math.prod(inner), dtype=np.int16).reshape(6, *inner)
    url = f"memory://windows-cast-{len(shape)}{shape[0]}-{tail}"
    with tl.create(url, {"f": tl.Array("int16", shape)}) as ds:
        ds.extend({"f": [first, first + 9]})
        ds.commit("two")
        windows = ds.windows(["f"], size=4, step=3, tail=tail)

        stored = next(iter(windows.loader(batch_size=4)))
        steps = tl.decode.Normalize([0.5], [2.0]) if inner else tl.decode.Cast("int64")
        loader = windows.loader(batch_size=4, decode={"f": steps})
        batch = next(iter(loader))

        dtype = np.float32 if inner else np.int64
        for made, own in zip(batch["f"], stored["f"], strict=True):
            expected = (own / np.float32(32767) - 0.5) / 2 if inner else own
            assert made.dtype == dtype
            assert np.allclose(made, expected, atol=1e-6)
        assert tail == "keep" or (batch["f"].shape, batch["f"].dtype) == (stored["f"].shape, dtype)
        ds.discard()


def test_steps_that_windows_of_arrays_cannot_have_are_refused():
    with tl.create("memory://windows-refused", {"f": tl.Array("int16", (6,))}) as ds:
        ds.extend({"f": np.zeros((4, 6), np.int16)})
        ds.commit("four")
        windows = ds.windows(["f"], size=3)

        steps = {"f": tl.decode.Normalize([0.0] * 6, [1.0] * 6)}
        with pytest.raises(InvalidInputError, match=r"windows of 'f' have none\ngive a mean"):
            windows.loader(batch_size=2, decode=steps)
        steps = {"f": [tl.decode.ToFloat(), tl.decode.Cast("int32")]}
        with pytest.raises(DTypeMismatchError, match=r"cast it to a float, or .*batch_transform="):
            windows.loader(batch_size=2, decode=steps)
        with pytest.raises(InvalidInputError, match=r"NULL has no windows"):
            windows.loader(batch_size=2, null={"f": 0})
