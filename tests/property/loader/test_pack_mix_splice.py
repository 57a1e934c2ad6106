"""A mix of packed rows that changes in its epoch: each source's passes have every token once."""

from __future__ import annotations

from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tests.property.loader.packed_documents import Documents, Passes, sequences_of

WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.2}
LIMIT = 60


@st.composite
def programs(draw):
    """Draw documents, a form, the end of an epoch, and breaks with edits and other mixes."""
    lengths = st.lists(st.integers(1, 12), min_size=10, max_size=20)
    edit = st.tuples(
        st.sampled_from("abc"),
        st.lists(st.integers(1, 12), max_size=3),  # documents added
        st.integers(0, 2),  # documents deleted
        st.lists(st.integers(1, 12), max_size=4),  # documents changed
    )
    breaks = draw(
        st.lists(
            st.tuples(
                st.integers(0, 5),  # global batches before it
                st.lists(edit, max_size=2),
                st.sampled_from([None, None, "", "x % 3 != 1"]),
                st.sampled_from([None, None, "ab", "ba", "abc", "b"]),  # another mix
                st.integers(1, 3),  # world after it
            ),
            min_size=1,
            max_size=3,
        )
    )
    form = {"eos": draw(st.sampled_from([None, 0])), "split": draw(st.booleans())}
    stop = draw(st.sampled_from(["first", "all", "never"]))
    shuffle = draw(st.sampled_from([False, True]))
    return draw(st.tuples(*[lengths] * 3)), draw(st.integers(2, 9)), form, stop, shuffle, breaks


def _taken(loaders, eos, batches=None):
    """Return the next sequences, each with its source, of the next global batches."""
    parts = []
    for loader in loaders:
        with closing(iter(loader)) as passed:
            parts.append([list(_named(batch, eos)) for batch in islice(passed, batches)])
    return [one for number in zip(*parts, strict=True) for own in number for one in own]


def _named(batch, eos):
    valid = batch.get("_valid", np.ones(len(batch["tokens"]), np.bool_))
    return zip(batch["_source"][valid].tolist(), sequences_of(batch, eos), strict=True)


def _check(program):
    lengths, length, form, stop, shuffle, breaks = program
    sources = {name: Documents(length, form) for name in "abc"}
    for name, own in zip(sources, lengths, strict=True):
        sources[name].add(own)
    names, where = "ab", ""

    def mixed():
        given = {name: (sources[name].ds, WEIGHTS[name]) for name in names}
        return tl.mix(given, by="tokens", stop=stop).pack("tokens", length, mask="mask", **form)

    def made(rank, world):
        own = {"seed": 3} if shuffle else {}
        limit = {"limit": LIMIT} if stop == "never" else {}
        sizes = {"global_batch_size": 3, "workers": 1, "rank": rank, "world_size": world}
        return mixed().loader(shuffle=shuffle, **own, **limit, **sizes)

    def give(batches=None):
        found = _taken(loaders, form["eos"], batches)
        assert found == _taken([whole], form["eos"], batches)
        for number, sequence in found:
            passes[names[number]].give(sequence)

    def begun(name):
        return Passes(sources[name], where, repeat=1_000)

    whole, loaders = made(0, 1), [made(0, 1)]
    passes = {name: begun(name) for name in names}
    for batches, edits, condition, another, world in breaks:
        give(batches)
        for name, added, deleted, changed in edits:
            sources[name].delete(deleted)
            sources[name].change(changed)
            sources[name].add(added)
        where = where if condition is None else condition
        asked = {"where": condition}
        if another is None:
            asked["version"] = {name: sources[name].ds.version for name in names}
        else:
            names = another
            asked["mix"] = mixed()
        for loader in (whole, *loaders):
            loader.advance(**asked)
        state = whole.state_dict()
        assert all(loader.state_dict() == state for loader in loaders)
        if whole.epoch:
            break  # a new epoch begins inside passes
        is_new = not state["position"]
        kept = {} if is_new else {name: own for name, own in passes.items() if name in names}
        for name, own in kept.items():
            own.change(sources[name], where)
        passes = {name: kept.get(name) or begun(name) for name in names}
        loaders = [made(rank, world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(state)
        if not whole.remaining:
            break
    else:
        give()
        if stop != "never":
            is_over = [not one.left or one.left_passes < 999 for one in passes.values()]
            assert all(is_over) if stop == "all" else any(is_over)
    assert _taken(loaders, form["eos"]) == _taken([whole], form["eos"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=15, deadline=None)
@given(programs())
def test_no_token_of_a_source_is_lost_and_none_comes_twice(program):
    _check(program)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@settings(max_examples=200, deadline=None)
@given(programs())
def test_no_token_of_a_source_is_lost_and_none_comes_twice_in_many_programs(program):
    _check(program)
