"""Windows against a plain model: none lost, none doubled, none across groups, on any ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

NAMES = itertools.count()
STEPS = {"size": st.integers(1, 5), "stride": st.integers(1, 3), "step": st.integers(1, 6)}
TAILS = st.sampled_from(["drop", "pad", "keep"])


def series(keys):
    """Rows in two commits; every value tells its row."""
    ds = tl.create(
        f"memory://property-windows-{next(NAMES)}",
        {"key": "int64", "x": "int64", "list": tl.Array("int16", (None,)), "text": "str"},
    )
    half = len(keys) // 2
    for part in (range(half), range(half, len(keys))):
        if part:
            ds.extend(
                {
                    "key": [keys[at] for at in part],
                    "x": [10 * at for at in part],
                    "list": [np.full(at % 3, at, np.int16) for at in part],
                    "text": [str(at) for at in part],
                }
            )
            ds.commit("rows")
    return ds


def windows_of(length, size, stride, step, tail):
    """Elements of each window of a group, those past its end left out."""
    starts = range(0, length, step)
    every = [[start + stride * at for at in range(size)] for start in starts]
    within = [[at for at in own if at < length] for own in every]
    return [own for own in within if tail != "drop" or len(own) == size]


def model(keys, arguments):
    """(rows of the window within its group, start in the group), group by group."""
    groups = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return [
        ([rows[at] for at in own], own[0])
        for rows in groups.values()
        for own in windows_of(len(rows), **arguments)
    ]


def seen(batches, size, tail):
    """The same of batches; checks that all entries of a window agree."""
    made = []
    for batch in batches:
        for at, start in enumerate(batch["_start"].tolist()):
            x = batch["x"][at].tolist()
            count = int(batch["_mask"][at].sum()) if tail == "pad" else len(x)
            rows = [value // 10 for value in x]
            assert tail == "keep" or len(x) == size
            assert rows[count:] == [rows[count - 1]] * (len(rows) - count)
            assert batch["text"][at] == [str(row) for row in rows]
            assert [own.tolist() for own in batch["list"][at]] == [
                [row] * (row % 3) for row in rows
            ]
            assert int(batch["_row"][at]) == rows[0]
            made.append((rows[:count], start))
    return made


KEYS = st.lists(st.integers(0, 4), min_size=1, max_size=40)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(KEYS, st.fixed_dictionaries(STEPS), TAILS, st.booleans(), st.integers(1, 5))
def test_windows_of_rows_are_the_models(keys, steps, tail, shuffle, batch_size):
    ds = series(keys)
    windows = ds.windows(["x", "list", "text"], by="key", tail=tail, **steps)

    loader = windows.loader(batch_size=batch_size, shuffle=shuffle, seed=1)
    epochs = [seen(loader, steps["size"], tail) for _ in range(2)]

    expected = model(keys, {**steps, "tail": tail})
    assert len(windows) == len(expected)
    assert len(loader) == -(-len(expected) // batch_size)
    for made in epochs:
        assert sorted(made) == sorted(expected)
        assert shuffle or made == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=15, deadline=None)
@given(KEYS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.data())
def test_ranks_and_resumed_ranks_together_give_each_window_once(keys, step, world, later, data):
    ds = series(keys)
    windows = ds.windows(["x", "list", "text"], by="key", size=2, step=step)
    whole = seen(windows.loader(batch_size=1, shuffle="full", seed=2), 2, "drop")
    global_batch = 6

    def ranks(count, state=None):
        for rank in range(count):
            loader = windows.loader(
                global_batch_size=global_batch, shuffle="full", seed=2, rank=rank, world_size=count
            )
            if state is not None:
                loader.load_state_dict(state)
            yield loader

    def merged(passes):
        steps = itertools.zip_longest(*passes)
        return [one for step in steps for batch in step for one in seen([batch], 2, "drop")]

    steps = data.draw(st.integers(0, max(0, len(whole) // global_batch - 1)))
    loaders = list(ranks(world))
    passes = [iter(loader) for loader in loaders]
    begun = merged([[next(one) for _ in range(steps)] for one in passes])
    states = [loader.state_dict() for loader in loaders]
    for one in passes:
        one.close()
    resumed = [
        [
            {
                name: [own for own, kept in zip(value, batch["_valid"], strict=True) if kept]
                if isinstance(value, list)
                else value[batch["_valid"]]
                for name, value in batch.items()
            }
            if "_valid" in batch
            else batch
            for batch in loader
        ]
        for loader in ranks(later, states[0])
    ]

    assert begun == whole[: steps * global_batch]
    assert all(state == states[0] for state in states)
    assert merged(resumed) == whole[len(begun) :]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 23), min_size=1, max_size=12),
    st.fixed_dictionaries(STEPS),
    TAILS,
    st.booleans(),
    st.integers(1, 5),
)
def test_windows_of_arrays_are_the_models(lengths, steps, tail, shuffle, batch_size):
    ds = tl.create(
        f"memory://property-windows-{next(NAMES)}",
        {
            "signal": tl.Array("float32", (None, 2)),
            "codes": tl.Array("int32", (None,)),
            "row": "int64",
        },
    )
    signals = [
        np.stack([np.arange(length), np.full(length, row)], 1).astype(np.float32)
        for row, length in enumerate(lengths)
    ]
    codes = [np.arange(length, dtype=np.int32) for length in lengths]
    ds.extend({"signal": signals, "codes": codes, "row": range(len(lengths))})
    ds.commit("signals")
    windows = ds.windows(tail=tail, **steps)

    made = [
        (row, start, signal, code)
        for batch in windows.loader(batch_size=batch_size, shuffle=shuffle, seed=1)
        for row, start, signal, code in zip(
            batch["row"].tolist(),
            batch["_start"].tolist(),
            [own.tolist() for own in batch["signal"]],
            [own.tolist() for own in batch["codes"]],
            strict=True,
        )
    ]

    expected = []
    for row, length in enumerate(lengths):
        for own in windows_of(length, tail=tail, **steps):
            padded = own + [own[-1]] * (steps["size"] - len(own)) if tail == "pad" else own
            expected.append((row, own[0], [[at, row] for at in padded], padded))
    assert len(windows) == len(expected)
    assert sorted(made) == sorted(expected)
    assert shuffle or made == expected
