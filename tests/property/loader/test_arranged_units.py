"""``weights=``, ``stratify=``, ``group=``, ``repeat=``, ``limit=`` of packed documents and windows.

The oracle of an order is the loader of rows, which has tests of its own: of the documents, or of a
dataset with a row for each window or sequence. That of sequences is a plain Python model.
"""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tests.property.loader.test_packing import model, pieces_of, placed_by_best_fit
from tests.support.examples import examples

NAMES = itertools.count()
EOS = 0
SCHEMA = {
    "tokens": tl.Array("uint16", (None,)),
    "mask": tl.Array("uint8", (None,)),
    "label": tl.ClassLabel(["a", "b", "c"]),
    "w": "float64",
    "key": "int64",
}
DOCUMENTS = st.lists(
    st.tuples(
        st.integers(0, 23), st.integers(0, 2), st.sampled_from([0, 0.5, 1, 3]), st.integers(0, 4)
    ),
    min_size=1,
    max_size=40,
)
ONCE = [{"stratify": "label"}, {"group": "key"}]
DRAWN = [{"weights": "w"}, {"weights": {"label": "balanced"}}, {"weights": {"label": {"b": 4.0}}}]
SHUFFLED = {"shuffle": True, "seed": 5}


def corpus(documents):
    """Documents whose tokens tell them apart; the mask of a token is its number there, from 1."""
    ds = tl.create(f"memory://arranged-units-{next(NAMES)}", SCHEMA)
    lengths, labels, weights, keys = zip(*documents, strict=True)
    if not any(weights):
        weights = (1, *weights[1:])
    ds.extend(
        {
            "tokens": [np.full(length, at + 1) for at, length in enumerate(lengths)],
            "mask": [np.arange(1, length + 1) for length in lengths],
            "label": labels,
            "w": weights,
            "key": keys,
        }
    )
    ds.commit("documents")
    return ds, list(lengths)


def rows_of(ds, epoch, **arguments):
    """Rows in the order of an epoch of rows."""
    loader = ds.loader(batch_size=7, columns=["_row"], **arguments)
    loader.set_epoch(epoch)
    return [row for batch in loader for row in batch["_row"].tolist()]


def sequences_of(batches):
    """The sequences of some batches, as the model has them."""
    names = ("tokens", "mask", "segments", "positions")
    return [
        list(zip(*(batch[name][at].tolist() for name in names), strict=True))
        for batch in batches
        for at in range(len(batch["tokens"]))
    ]


def expected_tokens(ds, lengths, order):
    """Tokens of as many draws as there are documents, on average, with eos."""
    weights = order["weights"]
    sizes = [length + 1 for length in lengths]
    if weights == "w":
        by_row = [Fraction(float(one)) for one in ds["w"][:]]
    else:
        labels, given = ds["label"][:].tolist(), weights["label"]
        counts = [labels.count(label) for label in labels]
        by_row = [
            Fraction(1, count) if given == "balanced" else Fraction(4 if label == 1 else 1)
            for label, count in zip(labels, counts, strict=True)
        ]
    total = sum(weight * size for weight, size in zip(by_row, sizes, strict=True))
    return float(total / sum(by_row) * len(sizes))


@examples(5, deadline=None)
@given(DOCUMENTS, st.integers(1, 17), st.sampled_from(ONCE), st.sampled_from([SHUFFLED, {}]))
def test_cut_sequences_have_the_documents_in_their_order(documents, length, order, shuffled):
    ds, lengths = corpus(documents)
    loader = ds.pack("tokens", length, eos=EOS, mask="mask").loader(
        batch_size=5, **order, **shuffled
    )

    for epoch in range(2):
        made = sequences_of(loader)

        expected = model(rows_of(ds, epoch, **order, **shuffled), lengths, length, EOS)
        assert made == expected
        assert len(loader) == -(-len(expected) // 5)


def model_of_draws(drawn, lengths, length):
    """The sequences of draws: a document that is drawn twice in succession is two of them."""
    made = model(range(len(drawn)), [lengths[at] for at in drawn], length, EOS)
    return [
        [(token and drawn[token - 1] + 1, *others) for token, *others in sequence]
        for sequence in made
    ]


@pytest.mark.slow
@examples(5, deadline=None)
@given(DOCUMENTS, st.integers(1, 17), st.sampled_from(DRAWN), st.sampled_from([SHUFFLED, {}]))
def test_documents_drawn_by_weights_are_cut_after_an_epochs_tokens(
    documents, length, order, shuffled
):
    ds, lengths = corpus(documents)
    loader = ds.pack("tokens", length, eos=EOS, mask="mask").loader(
        batch_size=5, **order, **shuffled
    )
    tokens = expected_tokens(ds, lengths, order)

    for epoch in range(2):
        made = sequences_of(loader)

        order_of = itertools.chain.from_iterable(
            rows_of(ds, one, **order, **shuffled) for one in itertools.count(epoch)
        )
        drawn = list(itertools.islice(order_of, 8 * len(lengths)))
        expected = model_of_draws(drawn, lengths, length)
        if "w" in order.values():  # classes get exact counts of rows in an epoch, rounded
            assert len(made) == max(1, int(tokens) // length)
        assert len(made) * length <= max(length, tokens + 3 * 24)
        kept = [one for one in made if all(segment >= 0 for *_, segment, _ in one)]
        assert kept == expected[: len(kept)]  # all are full, but for one of less than a sequence
        assert len(kept) == len(made) or (len(made) == 1 and tokens < length + 3 * 24)


def sequences_by_group(documents, lengths, length, column):
    """Pieces of documents placed by best fit in each class or group, by their first document."""
    values = [document[column] for document in documents]
    made = []
    for value in dict.fromkeys(values):
        own = [piece for piece in pieces_of(lengths, length, EOS) if values[piece[0]] == value]
        made += [(value, one) for one in placed_by_best_fit(own, length)]
    return made


def tokens_of(sequence, lengths):
    """The (token, number in its document) of pieces, without padding."""
    made = []
    for at, start, stop in sequence:
        tokens = [(at + 1, number) for number in range(1, lengths[at] + 1)]
        tokens.append((EOS, tokens[-1][1] if tokens else 0))
        made += tokens[start:stop]
    return made


@examples(5, deadline=None)
@given(DOCUMENTS, st.integers(2, 17), st.sampled_from(ONCE), st.sampled_from([SHUFFLED, {}]))
def test_whole_documents_of_other_classes_or_groups_share_no_sequence(
    documents, length, order, shuffled
):
    ds, lengths = corpus(documents)
    name = next(iter(order))
    placed = sequences_by_group(documents, lengths, length, {"stratify": 1, "group": 3}[name])
    oracle = tl.create(f"memory://arranged-units-{next(NAMES)}", {"value": "int64"})
    oracle.extend({"value": [value for value, _ in placed]})
    loader = ds.pack("tokens", length, eos=EOS, mask="mask", split=False).loader(
        batch_size=5, **order, **shuffled
    )

    for epoch in range(2):
        made = sequences_of(loader)

        numbers = rows_of(oracle, epoch, **{name: "value"}, **shuffled)
        expected = [tokens_of(placed[number][1], lengths) for number in numbers]
        assert [[(t, n) for t, n, s, _ in one if s >= 0] for one in made] == expected


@examples(5, deadline=None)
@given(DOCUMENTS, st.integers(2, 17), st.sampled_from(DRAWN), st.booleans())
def test_whole_documents_drawn_by_weights_are_placed_round_by_round(
    documents, length, order, shuffle
):
    ds, lengths = corpus(documents)
    given = {**order, "shuffle": shuffle, "seed": 5}
    loader = ds.pack("tokens", length, eos=EOS, mask="mask", split=False).loader(
        batch_size=5, **given
    )

    for epoch in range(2):
        made = [[(t, n) for t, n, s, _ in one if s >= 0] for one in sequences_of(loader)]

        expected = []
        for number in itertools.count(epoch):
            drawn = rows_of(ds, number, **given)
            own = pieces_of([lengths[at] for at in drawn], length, EOS)
            for one in placed_by_best_fit(own, length):
                pieces = [(drawn[at], start, stop) for at, start, stop in one]
                expected.append(tokens_of(pieces, lengths))
            if len(expected) >= len(made):
                break
        if shuffle:
            assert all(expected.count(one) >= made.count(one) for one in made)
        else:
            assert made == expected[: len(made)]


@examples(6, deadline=None)
@given(
    DOCUMENTS,
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from(["drop", "pad", "keep"]),
    st.sampled_from([*ONCE, *DRAWN, {"stratify": "key"}, {"group": "label"}]),
    st.booleans(),
    st.sampled_from([SHUFFLED, {}]),
)
def test_windows_have_the_values_of_their_first_rows(
    documents, size, step, tail, order, by_key, shuffled
):
    ds, _ = corpus(documents)
    windows = ds.windows(
        ["label"] if by_key else ["tokens"], by="key" if by_key else None,
        size=size, step=step, tail=tail,
    )  # fmt: skip
    plain = [batch["_row"] for batch in windows.loader(batch_size=8)]
    firsts = np.concatenate(plain) if plain else np.empty(0, np.int64)
    weights = ds["w"][:][firsts]
    if "w" in order.values() and len(firsts) and not weights.any():
        with pytest.raises(tl.InvalidInputError, match="is 0 for all"):
            next(iter(windows.loader(batch_size=8, **order, **shuffled)))
        return
    oracle = tl.create(f"memory://arranged-units-{next(NAMES)}", SCHEMA)
    names = ("label", "w", "key")
    empty = [np.empty(0, np.uint16)] * len(firsts)
    columns = {name: ds[name][:][firsts] for name in names} if len(firsts) else {}
    if columns:
        oracle.extend({**columns, "tokens": empty, "mask": empty})
    loader = windows.loader(batch_size=8, **order, **shuffled)

    for epoch in range(2):
        batches = list(loader)

        made = [row for batch in batches for row in batch["_row"].tolist()]
        numbers = rows_of(oracle, epoch, **order, **shuffled)
        assert made == firsts[numbers].tolist()


FORMS = {
    "cut": lambda ds: ds.pack("tokens", 8, eos=EOS, mask="mask"),
    "whole": lambda ds: ds.pack("tokens", 8, eos=EOS, mask="mask", split=False),
    "windows by key": lambda ds: ds.windows(["label"], by="key", size=2, tail="pad"),
    "windows of arrays": lambda ds: ds.windows(["mask"], size=3),
}


def keys_of(batches):
    """A hashable value for each valid unit of some batches."""
    return [
        json.dumps([batch[name][at].tolist() for name in sorted(batch) if name != "_valid"])
        for batch in batches
        for at in range(len(next(iter(batch.values()))))
        if "_valid" not in batch or batch["_valid"][at]
    ]


@pytest.fixture(scope="module")
def some():
    rng = np.random.default_rng(3)
    documents = zip(
        rng.integers(0, 24, 60), rng.choice(3, 60, p=[0.7, 0.2, 0.1]),
        rng.random(60), rng.integers(0, 7, 60), strict=True,
    )  # fmt: skip
    ds, _ = corpus([tuple(one.item() for one in document) for document in documents])
    return ds


@pytest.mark.slow
@examples(8, deadline=None)
@pytest.mark.filterwarnings("ignore::tensorlake.errors.ShortBatchWarning")
@given(
    st.sampled_from([*FORMS]),
    st.sampled_from([{}, *ONCE, *DRAWN]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([None, 5, 23, 1000]),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(4, 20), st.integers(4, 20)),
    st.data(),
)
def test_repeats_and_limits_go_on_on_other_ranks_from_any_batch(
    some, form, order, repeat, limit, worlds, batches, data
):
    made = FORMS[form](some)
    plain = made.loader(batch_size=16, **order, **SHUFFLED)
    epochs = [keys_of(plain) for _ in range(2 * repeat)]
    wholes = [list(itertools.chain(*epochs[at : at + repeat]))[:limit] for at in (0, repeat)]

    def ranks(world, batch):
        arguments = {**order, **SHUFFLED, "global_batch_size": batch, "limit": limit}
        return [
            made.loader(rank=rank, world_size=world, repeat=repeat, **arguments)
            for rank in range(world)
        ]

    def merged(passes):
        return [key for parts in passes for part in parts for key in keys_of([part])]

    first = ranks(worlds[0], batches[0])
    cut = data.draw(st.integers(0, len(first[0])))
    passes = [iter(one) for one in first]
    begun = merged([[next(one) for one in passes] for _ in range(cut)])
    states = [json.loads(json.dumps(one.state_dict())) for one in first]
    for one in passes:
        one.close()
    second = ranks(worlds[1], batches[1])
    for one in second:
        one.load_state_dict(states[0])
    rest = merged(zip(*second, strict=True))

    assert all(state == states[0] for state in states)
    assert len(json.dumps(states[0])) < 1024
    expected = wholes[0] if cut < len(first[0]) else [*wholes[0], *wholes[1]]
    assert [*begun, *rest] == expected
