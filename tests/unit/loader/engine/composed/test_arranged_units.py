"""Orders of packed documents and windows: their states, copies, prices, and what they refuse."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError

NAMES = itertools.count()
FORMS = {
    "cut": lambda ds: ds.pack("tokens", 8, eos=0),
    "whole": lambda ds: ds.pack("tokens", 8, eos=0, split=False),
    "windows": lambda ds: ds.windows(["tokens"], size=3),
    "windows by key": lambda ds: ds.windows(["label"], by="key", size=3),
}
ALL = pytest.mark.parametrize("form", FORMS)


def corpus(count=60, weights=None):
    ds = tl.create(
        f"memory://arranged-{next(NAMES)}",
        {"tokens": tl.Array("uint16", (None,)), "label": "int64", "key": "int64", "w": "float64"},
    )
    lengths = np.random.default_rng(0).integers(0, 20, count)
    ds.extend(
        {
            "tokens": [np.full(length, at + 1) for at, length in enumerate(lengths)],
            "label": np.arange(count) ** 2 % 5,
            "key": np.arange(count) // 10,
            "w": np.arange(count) % 4 + 0.5 if weights is None else weights,
        }
    )
    ds.commit("documents")
    return ds


@pytest.fixture(scope="module")
def documents():
    return corpus()


def loader_of(made, **arguments):
    return made.loader(batch_size=6, shuffle=True, seed=1, **arguments)


def values(batches):
    """The first column of some batches, as lists."""
    return [batch[next(iter(batch))].tolist() for batch in batches]


@ALL
def test_a_state_goes_on_over_its_version_and_in_a_copy(form):
    ds = corpus()
    order = {"weights": "w", "repeat": 2}
    loader = loader_of(FORMS[form](ds), **order)
    batches = iter(loader)
    next(batches)
    state, copy = loader.state_dict(), pickle.loads(pickle.dumps(loader))
    rest = values(batches)
    ds.append({"tokens": [9] * 40, "label": 1, "key": 9, "w": 100.0})
    ds.commit("one more")
    again = loader_of(FORMS[form](ds), **order)

    with pytest.warns(tl.NewerVersionWarning):
        again.load_state_dict(state)

    assert values(again) == rest
    assert values(copy) == rest


@ALL
@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ({}, {"weights": "w"}, "order"),
        ({"weights": "w"}, {}, "order"),
        ({"group": "key"}, {"group": "label"}, "column"),
        ({"weights": {"label": {1: 2.0}}}, {"weights": {"label": {1: 3.0}}}, "weights"),
        ({"repeat": 2}, {"repeat": 3}, "repeat"),
        ({"limit": 5}, {"limit": 4}, "num_rows"),
    ],
)
def test_another_order_is_listed(documents, form, was, now, named):
    state = loader_of(FORMS[form](documents), **was).state_dict()

    with pytest.raises(StateMismatchError, match=f"differs in .*{named}"):
        loader_of(FORMS[form](documents), **now).load_state_dict(state)


@ALL
def test_explain_shows_the_order_and_the_pass_over_its_column(documents, form):
    explained = loader_of(FORMS[form](documents), stratify="label").explain()

    assert "stratified by 'label'" in explained
    assert "a first pass reads up to" in explained
    assert "3 distinct values" in explained


@ALL
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"weights": "words"}, "words"),
        ({"weights": np.ones(3)}, "the view 60 rows"),
        ({"stratify": "label", "group": "key"}, "different orders"),
        ({"weights": "tokens"}, "a weight is a number"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_loader_is_made(documents, form, arguments, said):
    with pytest.raises((InvalidInputError, tl.TensorNotFoundError), match=said):
        loader_of(FORMS[form](documents), **arguments)


def test_windowed_reads_have_no_order_by_a_column(documents):
    for form in FORMS.values():
        loader = form(documents).loader(batch_size=6, shuffle="window", group="key")
        with pytest.raises(InvalidInputError, match="give shuffle=True"):
            next(iter(loader))


@pytest.mark.slow
def test_documents_come_as_often_as_they_weigh():
    weights = np.where(np.arange(60) < 30, 0, np.arange(60) % 3 + 1)
    ds = corpus(weights=weights)
    lengths = np.array([len(tokens) for tokens in ds["tokens"][:]])
    expected = weights / weights.sum() * 60 * lengths * 40

    for split in (True, False):
        loader = loader_of(ds.pack("tokens", 8, split=split), weights="w")
        counts = np.zeros(61)
        for _ in range(40):
            for batch in loader:
                tokens = batch["tokens"][batch["segments"] >= 0]
                counts += np.bincount(tokens, minlength=61)

        assert not counts[1:31].any()
        # a document comes at most once more or less in an epoch, and the end of epochs is cut
        assert np.abs(counts[1:] - expected).sum() < 0.06 * expected.sum()


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(
    ("weight", "said"),
    [(0, "draws documents without tokens only"), (2e-5, "1,024 rounds of documents drawn")],
)
def test_documents_that_are_hardly_drawn_have_no_epoch(split, weight, said):
    ds = tl.create(f"memory://arranged-{next(NAMES)}", {"tokens": tl.Array("uint16", (None,))})
    ds.extend({"tokens": [np.ones(60_000, np.uint16), *[np.empty(0, np.uint16)] * 40]})
    ds.commit("one has all tokens")
    loader = loader_of(ds.pack("tokens", 8, split=split), weights=[weight] + [1.0] * 40)

    with pytest.raises(InvalidInputError, match=said):
        next(iter(loader))


def test_a_window_has_the_value_of_its_first_row():
    ds = tl.create(f"memory://arranged-{next(NAMES)}", {"x": "int64", "key": "int64"})
    ds.extend({"x": range(24), "key": np.arange(24) % 2})
    ds.commit("two episodes, their rows by turns")
    windows = ds.windows(["x"], by="key", size=2, step=3)

    weights = dict.fromkeys(range(24), 0.0) | {6: 3.0, 13: 1.0}
    (batch,) = windows.loader(batch_size=8, weights={"x": weights})

    assert sorted(batch["_row"].tolist()) == [6] * 6 + [13] * 2
    assert batch["_start"].tolist() == [3 if row == 6 else 6 for row in batch["_row"]]
