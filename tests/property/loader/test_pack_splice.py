"""An epoch of packed documents that continues with others: every token of them once in a pass."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.loader.packed_documents import FILTERS, Documents, Passes, sequences_of

ORDERS = (
    {"shuffle": False},
    {"shuffle": True},
    {"shuffle": "window"},
    {"stratify": "kind", "shuffle": True},
    {"group": "kind", "shuffle": True},
    {"group": "kind", "shuffle": False},
)


@st.composite
def programs(draw):
    """Draw documents, a form, an order, and breaks with an edit or a filter at each."""
    breaks = draw(
        st.lists(
            st.tuples(
                st.integers(0, 4),  # global batches before it
                st.lists(st.integers(1, 12), max_size=4),  # documents added
                st.integers(0, 6),  # documents deleted
                st.lists(st.integers(1, 12), max_size=5),  # documents changed
                st.sampled_from([None, None, *FILTERS]),
                st.sampled_from([1, 2, 3]),  # world after it
            ),
            min_size=1,
            max_size=4,
        )
    )
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=30))
    own = draw(st.sampled_from(ORDERS)) | draw(st.sampled_from([{}, {}, {"repeat": 2}]))
    form = {"eos": draw(st.sampled_from([None, 0])), "split": draw(st.booleans())}
    return lengths, draw(st.integers(2, 9)), form, own, breaks, draw(st.integers(0, 3))


def _given(loaders, eos, batches=None):
    """Return the sequences of the next global batches."""
    parts = []
    for loader in loaders:
        with closing(iter(loader)) as passed:
            parts.append([list(sequences_of(one, eos)) for one in islice(passed, batches)])
    return [one for number in zip(*parts, strict=True) for own in number for one in own]


def _check(program):
    lengths, length, form, own, breaks, seed = program
    documents = Documents(length, form)
    documents.add(lengths)
    options = dict(own) if own["shuffle"] is False else {**own, "seed": seed}
    packed = documents.ds.pack("tokens", length, mask="mask", **form)
    make = partial(packed.loader, **options, global_batch_size=3, workers=1)
    take = partial(_given, eos=form["eos"])
    where, epoch, repeat = "", 0, own.get("repeat", 1)
    whole, loaders = make(rank=0, world_size=1), [make(rank=0, world_size=1)]
    passes = Passes(documents, where, repeat)
    for batches, added, deleted, changed, condition, world in breaks:
        if loaders[0].epoch == epoch:
            sequences = take(loaders, batches=batches)
            assert sequences == take([whole], batches=batches)
            for one in sequences:
                passes.give(one)
        documents.delete(deleted)
        documents.change(changed)
        documents.add(added)
        where = where if condition is None else condition
        for loader in (whole, *loaders):
            loader.advance(documents.ds.version, where=condition)
        state = whole.state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
        if whole.epoch != epoch:
            assert passes.is_over
            epoch, passes = whole.epoch, Passes(documents, where, repeat)
        else:
            passes.change(documents, where)
        loaders = [make(rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if passes.is_over:
            break
    if not passes.is_over:
        sequences = take(loaders)
        assert sequences == take([whole])
        for one in sequences:
            passes.give(one)
        assert passes.is_over
    if documents.kept(where):
        passes = Passes(documents, where, repeat)
        for one in take(loaders):
            passes.give(one)
        assert passes.is_over


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=12, deadline=None)
@given(programs())
def test_no_token_is_lost_and_none_comes_twice(program):
    _check(program)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=200, deadline=None)
@given(programs())
def test_no_token_is_lost_and_none_comes_twice_in_many_programs(program):
    _check(program)
