"""``mix.pack()``: each source packed by itself, the sequences mixed by weights."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError
from tensorlake.loader.sources.mix import source_seed

NAMES = itertools.count()
SCHEMA = {"tokens": tl.Array("uint16", (None,)), "mask": tl.Array("bool", (None,))}


def corpus(base, count, longest, seed=0):
    """Documents of one to ``longest`` tokens, all above ``base``."""
    lengths = np.random.default_rng(seed).integers(1, longest, count)
    ds = tl.create(f"memory://packed-mix-{next(NAMES)}", SCHEMA)
    ds.extend(
        {
            "tokens": [np.full(length, base + at) for at, length in enumerate(lengths)],
            "mask": [np.arange(length) % 2 == 0 for length in lengths],
        }
    )
    ds.commit("documents")
    return ds


@pytest.fixture(scope="module")
def sources():
    return corpus(1000, 90, 9), corpus(2000, 40, 60)


def mixed(sources, stop="first", weights=(0.7, 0.3)):
    names = ("short", "long")
    return tl.mix(
        {name: (ds, own) for name, ds, own in zip(names, sources, weights, strict=True)},
        by="tokens",
        stop=stop,
    )


def sequences(batches):
    return [tokens.tolist() for batch in batches for tokens in batch["tokens"]]


@pytest.mark.slow
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("shuffle", [False, "full"])
def test_each_source_gives_its_own_sequences_epoch_after_epoch(sources, split, shuffle):
    loader = (
        mixed(sources, "all")
        .pack("tokens", 16, eos=0, split=split)
        .loader(batch_size=4, shuffle=shuffle, seed=5)
    )

    batches = [batch for _ in range(2) for batch in loader]

    given = sequences(batches)
    numbers = np.concatenate([batch["_source"] for batch in batches])
    for number, ds in enumerate(sources):
        made = [given[at] for at in np.flatnonzero(numbers == number)]
        seed = source_seed(5, number, 2)
        alone = ds.pack("tokens", 16, eos=0, split=split)
        alone = alone.loader(batch_size=1, shuffle=shuffle, seed=seed)
        epochs = -(-len(made) // len(alone))
        assert made == [one for _ in range(epochs) for one in sequences(alone)][: len(made)]


def test_weights_are_shares_of_tokens(sources):
    loader = mixed(sources, "never").pack("tokens", 16).loader(batch_size=50, shuffle=True)

    (batch,) = itertools.islice(loader, 1)

    assert np.bincount(batch["_source"]).tolist() == pytest.approx([35, 15], abs=2)
    is_own = batch["tokens"] // 1000 == batch["_source"][:, None] + 1
    assert (is_own | (batch["segments"] < 0)).all()


@pytest.mark.parametrize("split", [True, False])
def test_it_resumes_on_other_ranks_and_versions(sources, split):
    sources = (corpus(1000, 50, 9), sources[1])
    packed = mixed(sources, "never").pack("tokens", 16, eos=0, mask="mask", split=split)
    loader = packed.loader(global_batch_size=6, shuffle=True, seed=1)
    batches = iter(loader)
    [next(batches) for _ in range(12)]
    state = loader.state_dict()
    rest = [next(batches) for _ in range(4)]
    sources[0].extend({"tokens": [[9, 9]], "mask": [[True, False]]})
    sources[0].commit("one more")

    again = mixed(sources, "never").pack("tokens", 16, eos=0, mask="mask", split=split)
    resumed = []
    for rank in range(3):
        part = again.loader(global_batch_size=6, shuffle=True, seed=1, rank=rank, world_size=3)
        with pytest.warns(tl.NewerVersionWarning):
            part.load_state_dict(state)
        resumed.append(list(itertools.islice(part, 4)))

    for step, batch in enumerate(rest):
        for name, expected in batch.items():
            parts = [batches[step][name] for batches in resumed]
            np.testing.assert_array_equal(np.concatenate(parts), expected, err_msg=name)


def test_mixes_inside_mixes_and_pickled_loaders(sources):
    inner = mixed(sources)
    outer = tl.mix({"both": (inner, 0.5), "short": (sources[0], 0.5)}, by="tokens", stop="never")
    loader = outer.pack("tokens", 16).loader(batch_size=100, shuffle="full")

    batch = next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))

    assert np.bincount(batch["_source"]).tolist() == pytest.approx([35, 15, 50], abs=2)
    assert sequences([next(iter(copy))]) != sequences([batch])  # it goes on
    assert "_source       int64 () stacked" in repr(loader)


def test_impossible_mixes_are_refused(sources):
    by_rows = tl.mix({"a": (sources[0], 0.5), "b": (sources[1], 0.5)})
    with pytest.raises(InvalidInputError, match=r"by rows.*\ngive tl.mix.*by='tokens'"):
        by_rows.pack("tokens", 16)
    ends = {"c": (sources[0], 1)}
    nested = tl.mix(ends | {"n": (by_rows, 0.5)}, by="tokens")
    staged = tl.mix(ends, by="tokens", stages=[(9, by_rows)], stop="never")
    for one, names in ((nested, "'n/a', 'n/b'"), (staged, "'a', 'b'")):
        with pytest.raises(
            InvalidInputError,
            match=rf"has the mix of {names} in it by rows:.*\n.*by='tokens'\) there",
        ):
            one.pack("tokens", 16)
    empty = tl.create("memory://packed-mix-empty", SCHEMA)
    empty.extend({"tokens": [[]], "mask": [[]]})
    with pytest.raises(InvalidInputError, match="'long' of the mix has no tokens"):
        len(mixed((sources[0], empty)).pack("tokens", 16).loader(batch_size=2))
    state = mixed(sources).pack("tokens", 16).loader(batch_size=2).state_dict()
    with pytest.raises(StateMismatchError, match="recorded 'pack tokens 16 eos=None'"):
        mixed(sources).pack("tokens", 8).loader(batch_size=2).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="weights"):
        mixed(sources, weights=(0.5, 0.5)).pack("tokens", 16).loader(batch_size=2).load_state_dict(
            state
        )


@pytest.mark.parametrize("split", [True, False])
def test_explain_counts_the_sequences_of_each_source(sources, split):
    packed = mixed(sources).pack("tokens", 16, split=split)
    counts = [len(one.pack("tokens", 16, split=split).loader(batch_size=1)) for one in sources]

    explained = packed.loader(batch_size=4).explain()

    for count, name in zip(counts, mixed(sources).names, strict=True):
        assert f"{count:,} of {name}" in explained
    assert ("% filled" in explained) == (not split)


@pytest.mark.parametrize("split", [True, False])
def test_weights_are_shares_of_tokens_however_full_sequences_are(split):
    four, five = (tl.create(f"memory://packed-mix-{next(NAMES)}", SCHEMA) for _ in range(2))
    for ds, length in ((four, 4), (five, 5)):
        ds.extend({"tokens": [[1] * length] * 40, "mask": [[True] * length] * 40})
        ds.commit("documents of one length")
    packed = mixed((four, five), "never", (1, 1)).pack("tokens", 8, split=split)

    batch = next(iter(packed.loader(batch_size=800)))

    assert np.bincount(batch["_source"]).tolist() == ([400, 400] if split else [308, 492])
    filled = (batch["segments"] >= 0).sum(axis=1)
    tokens = [int(filled[batch["_source"] == source].sum()) for source in (0, 1)]
    assert tokens == ([3200, 3200] if split else [2464, 2460])


@pytest.mark.parametrize("inside", [False, True])
def test_whole_documents_are_mixed_by_tokens_to_within_a_few_sequences(sources, inside):
    mix, share = mixed(sources, "never", (0.7, 0.3)), 0.3
    if inside:
        mix = tl.mix({"both": (mix, 0.5), "more": (sources[0], 0.5)}, by="tokens", stop="never")
        share /= 2
    loader = mix.pack("tokens", 64, split=False).loader(batch_size=20, shuffle=True, seed=3)
    tokens = np.zeros(len(mix.names))

    for batch in itertools.islice(loader, 60):
        filled = (batch["segments"] >= 0).sum(axis=1)
        tokens += np.bincount(batch["_source"], filled, minlength=len(tokens))
        assert abs(tokens[1] - share * tokens.sum()) <= 64 * 3

    assert tokens[1] / tokens.sum() == pytest.approx(share, abs=0.003)


def test_a_state_of_shares_of_sequences_goes_on_by_them(sources):
    packed = mixed(sources, "never", (3, 1)).pack("tokens", 16, split=False)
    loader = packed.loader(batch_size=40, shuffle=True, seed=1)
    state = loader.state_dict()
    for source, weight in zip(state["order"]["sources"], (3, 1), strict=True):
        source[3] = weight  # as it was before weights were divided by the mean tokens

    loader.load_state_dict(state)
    batch = next(iter(loader))

    assert np.bincount(batch["_source"]).tolist() == [30, 10]
    assert [one[3] for one in loader.state_dict()["order"]["sources"]] == [3, 1]
