"""Packed sequences against a plain Python model: no token lost, none doubled, on any ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

NAMES = itertools.count()
EOS = 0
DOCUMENTS = st.lists(st.integers(0, 23), min_size=1, max_size=40)


def corpus(lengths):
    """Documents whose tokens tell them apart; the mask of a token is its number there, from 1."""
    ds = tl.create(
        f"memory://property-packing-{next(NAMES)}",
        {"tokens": tl.Array("uint16", (None,)), "mask": tl.Array("uint8", (None,))},
    )
    half = len(lengths) // 2
    for part in (range(half), range(half, len(lengths))):
        if part:
            ds.extend(
                {
                    "tokens": [np.full(lengths[at], at + 1, np.uint16) for at in part],
                    "mask": [np.arange(1, lengths[at] + 1, dtype=np.uint8) for at in part],
                }
            )
            ds.commit("documents")
    return ds


def model(order, lengths, length, eos):
    """The sequences of documents in an order, token by token: (token, mask, segment, position)."""
    flat = []
    for at in order:
        tokens = [(at + 1, number) for number in range(1, lengths[at] + 1)]
        if eos is not None:
            tokens.append((eos, tokens[-1][1] if tokens else 0))
        flat += [(token, number, at) for token, number in tokens]
    sequences = []
    for start in range(0, len(flat), length):
        made, before, segment, position = [], None, -1, 0
        for token, number, at in flat[start : start + length]:
            segment, position = (segment, position + 1) if at == before else (segment + 1, 0)
            made.append((token, number, segment, position))
            before = at
        fill = 0 if eos is None else eos
        sequences.append(made + [(fill, 0, -1, 0)] * (length - len(made)))
    return sequences


def sequences_of(batches):
    """The sequences of some batches, as the model has them."""
    names = ("tokens", "mask", "segments", "positions")
    return [
        list(zip(*(batch[name][at].tolist() for name in names), strict=True))
        for batch in batches
        for at in range(len(batch["tokens"]))
    ]


def order_of(ds, arguments):
    """Rows in the order of an epoch without packing."""
    batches = ds.loader(batch_size=7, columns=["_row"], **arguments)
    return [row for batch in batches for row in batch["_row"].tolist()]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    DOCUMENTS,
    st.integers(1, 17),
    st.sampled_from([None, EOS]),
    st.sampled_from([False, "full", "window"]),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_sequences_are_the_models(lengths, length, eos, shuffle, batch_size, seed):
    ds = corpus(lengths)
    arguments = {"shuffle": shuffle, "seed": seed}
    packed = ds.pack("tokens", length, eos=eos, mask="mask")

    loader = packed.loader(batch_size=batch_size, **arguments)
    made = sequences_of(loader)

    assert made == model(order_of(ds, arguments), lengths, length, eos)
    assert len(loader) == -(-len(made) // batch_size)


def pieces_of(lengths, length, eos):
    """Pieces (document, start, stop) of documents, longer ones cut, eos counted."""
    whole = [(at, tokens + (eos is not None)) for at, tokens in enumerate(lengths)]
    return [
        (at, start, min(start + length, stop))
        for at, stop in whole
        for start in range(0, stop, length)
    ]


def placed_by_best_fit(pieces, length):
    """Bins of pieces: longest first, into the fitting bin with least room, one by one."""
    bins = []  # [room, when it got this room, pieces]
    for when, piece in enumerate(sorted(pieces, key=lambda one: one[1] - one[2])):
        size = piece[2] - piece[1]
        fitting = [one for one in bins if one[0] >= size]
        if not fitting:
            fitting = [[length, 0, []]]
            bins += fitting
        best = min(fitting, key=lambda one: (one[0], -one[1]))
        best[0], best[1] = best[0] - size, when
        best[2].append(piece)
    return sorted(sorted(own) for _, _, own in bins)


def model_of_whole(lengths, length, eos):
    """The sequences of whole documents, token by token, in the order of the selection."""
    sequences = []
    for own in placed_by_best_fit(pieces_of(lengths, length, eos), length):
        made = []
        for segment, (at, start, stop) in enumerate(own):
            tokens = [(at + 1, number) for number in range(1, lengths[at] + 1)]
            if eos is not None:
                tokens.append((eos, tokens[-1][1] if tokens else 0))
            made += [
                (token, number, segment, position)
                for position, (token, number) in enumerate(tokens[start:stop])
            ]
        fill = 0 if eos is None else eos
        sequences.append(made + [(fill, 0, -1, 0)] * (length - len(made)))
    return sequences


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    DOCUMENTS,
    st.integers(1, 17),
    st.sampled_from([None, EOS]),
    st.sampled_from([False, "full", "window"]),
    st.integers(1, 5),
)
def test_whole_documents_are_placed_by_best_fit(lengths, length, eos, shuffle, batch_size):
    packed = corpus(lengths).pack("tokens", length, eos=eos, mask="mask", split=False)

    loader = packed.loader(batch_size=batch_size, shuffle=shuffle, seed=3)
    made = [sequences_of(loader) for _ in range(2)]

    expected = model_of_whole(lengths, length, eos)
    assert [sorted(one) for one in made] == [sorted(expected)] * 2  # the same in every epoch
    assert shuffle or made[0] == expected
    assert len(loader) == -(-len(expected) // batch_size)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=15, deadline=None)
@given(DOCUMENTS, st.integers(1, 9), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.data())
def test_ranks_and_resumed_ranks_together_give_each_sequence_once(
    lengths, length, world, later, split, data
):
    ds = corpus(lengths)
    packed = ds.pack("tokens", length, eos=EOS, mask="mask", split=split)
    whole = sequences_of(packed.loader(batch_size=1, shuffle="full", seed=2))
    global_batch = 6

    def ranks(count, state=None):
        for rank in range(count):
            loader = packed.loader(
                global_batch_size=global_batch, shuffle="full", seed=2, rank=rank, world_size=count
            )
            if state is not None:
                loader.load_state_dict(state)
            yield loader

    def merged(passes):
        """Global batches of several ranks, in the order of the plan."""
        steps = itertools.zip_longest(*passes)
        return [one for step in steps for batch in step for one in sequences_of([batch])]

    steps = data.draw(st.integers(0, max(0, len(whole) // global_batch - 1)))
    loaders = list(ranks(world))
    passes = [iter(loader) for loader in loaders]
    begun = merged([[next(one) for _ in range(steps)] for one in passes])
    states = [loader.state_dict() for loader in loaders]
    for one in passes:
        one.close()
    rest = whole[len(begun) :]
    resumed = [list(loader) for loader in ranks(later, states[0])]
    valid = [
        [{name: value[batch["_valid"]] for name, value in batch.items()} for batch in one]
        if one and "_valid" in one[0]
        else one
        for one in resumed
    ]

    assert begun == whole[: steps * global_batch]
    assert all(state == states[0] for state in states)
    assert merged(valid) == rest
