"""``pack()``: forms of a batch, frameworks, states, and refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError, UnsupportedFeatureError


@pytest.fixture(scope="module")
def corpus():
    ds = tl.create(
        "memory://loader-packing",
        {
            "tokens": tl.Array("uint16", (None,)),
            "mask": tl.Array("bool", (None,)),
            "maybe": tl.Array("int32", (None,), nullable=True),
            "fixed": tl.Array("int32", (3,)),
            "image": tl.Array("uint8", (None, None)),
            "text": "str",
        },
    )
    rows = range(20)
    ds.extend(
        {
            "tokens": [np.full(row % 7, row + 1, np.uint16) for row in rows],
            "mask": [np.full(row % 7, row % 2 == 0) for row in rows],
            "maybe": [None if row == 11 else np.arange(row, dtype=np.int32) for row in rows],
            "fixed": np.arange(60, dtype=np.int32).reshape(20, 3),
            "image": [np.zeros((1, 1), np.uint8)] * 20,
            "text": ["a"] * 20,
        }
    )
    ds.commit("20 documents")
    return ds


def test_flat_batches_list_where_documents_start(corpus):
    loader = corpus[:5].pack("tokens", 4, eos=0).loader(batch_size=8, collate={"tokens": "concat"})

    (batch,) = loader

    assert batch["tokens"].tolist() == [0, 2, 0, 3, 3, 0, 4, 4, 4, 0, 5, 5, 5, 5, 0, 0]
    assert batch["cu_seqlens"].tolist() == [0, 1, 3, 4, 6, 8, 10, 12, 15]
    assert batch["segments"].tolist() == [0, 1, 1, 2, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, -1]


def test_flat_batches_of_whole_documents_end_with_all_padding(corpus):
    packed = corpus[:6].pack("tokens", 8, eos=0, split=False)
    loader = packed.loader(batch_size=8, collate={"tokens": "concat"})

    (batch,) = loader

    lengths = np.diff(batch["cu_seqlens"])
    assert sorted(lengths.tolist()) == [1, 2, 3, 4, 5, 6]  # of documents, with eos
    assert batch["tokens"].shape == batch["segments"].shape == (24,)
    assert batch["cu_seqlens"][-1] == 21 == np.argmax(batch["segments"] == -1)
    assert batch["tokens"][batch["cu_seqlens"][1:] - 1].tolist() == [0] * 6


def test_explain_states_how_full_whole_documents_fill_sequences(corpus):
    loader = corpus.pack("tokens", 5, eos=0, split=False).loader(batch_size=2)

    (told,) = [line for line in loader.explain().splitlines() if line.startswith("plan")]

    made = np.concatenate([batch["segments"] for batch in loader])
    assert f"{np.mean(made >= 0):.1%} filled" in told
    assert "5 longer ones cut" in told  # of 5 and 6 tokens, with eos


@pytest.mark.parametrize("world", [1, 5])
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("collate", [{}, {"tokens": "concat"}])
def test_stats_count_how_full_sequences_are(corpus, split, collate, world):
    packed = corpus.pack("tokens", 24, eos=0, split=split)
    tokens = 0
    for rank in range(world):  # of four sequences: the last rank repeats one
        loader = packed.loader(batch_size=8, rank=rank, world_size=world, collate=collate)
        assert loader.stats().packed_fill == 0
        with warnings.catch_warnings(action="ignore"):
            (batch,) = loader
        stats = loader.stats()
        own = batch["segments"] if batch.get("_valid", [True])[0] else np.empty(0)
        assert stats.packed_tokens == np.sum(own >= 0)
        assert stats.padding_tokens == np.sum(own < 0)
        tokens += stats.packed_tokens
    if len(own):
        assert f"{np.mean(own >= 0):.1%} filled: {np.sum(own >= 0)} tokens" in str(stats)

    assert tokens == sum(len(one) + 1 for one in corpus["tokens"])


def test_a_state_of_whole_documents_is_not_one_of_cut_ones(corpus):
    state = corpus.pack("tokens", 8, eos=0).loader(batch_size=2).state_dict()

    with pytest.raises(StateMismatchError, match="given 'pack tokens 8 eos=0 whole'"):
        corpus.pack("tokens", 8, eos=0, split=False).loader(batch_size=2).load_state_dict(state)


def test_a_loader_shows_the_entries_of_its_batches(corpus):
    cast = {"tokens": tl.decode.Cast("int64")}
    loader = corpus.pack("tokens", 8, eos=0, mask="mask").torch(batch_size=5, decode=cast)

    shown = repr(loader).splitlines()[1:]

    (batch, *_) = loader
    described = {line.split()[0]: line.split(maxsplit=1)[1] for line in shown}
    assert described.keys() == batch.keys()
    for name, entry in batch.items():
        assert described[name] == f"{str(entry.dtype).removeprefix('torch.')} (8,) stacked"


@pytest.mark.parametrize("split", [True, False])
def test_the_plan_names_the_documents_of_each_sequence(corpus, split):
    loader = corpus.pack("tokens", 8, eos=0, split=split).loader(batch_size=1, shuffle="full")

    plan = loader.plan

    for batch, rows in zip(loader, plan.rows_at(range(len(plan))), strict=True):
        assert set(batch["tokens"].ravel().tolist()) - {0} <= {row + 1 for row in rows.tolist()}
    with pytest.raises(InvalidInputError, match="has several rows"):
        plan.position_of([0])
    with pytest.raises(InvalidInputError, match="a position"):
        plan.rows_at([len(plan)])


def test_torch_gets_tensors_of_the_requested_dtype(corpus):
    torch = pytest.importorskip("torch")
    cast = {"tokens": tl.decode.Cast("int64")}

    (batch,) = corpus.pack("tokens", 8, eos=0, mask="mask").torch(batch_size=99, decode=cast)

    assert batch["tokens"].dtype == torch.int64
    assert batch["mask"].dtype == torch.bool
    assert batch["tokens"].shape == batch["segments"].shape == (10, 8)


def test_rows_of_one_length_pack_too(corpus):
    (batch,) = corpus[:3].pack("fixed", 5).loader(batch_size=2)

    assert batch["fixed"].ravel().tolist() == [*range(9), 0]
    assert batch["segments"].tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 1, -1]]


def test_documents_without_tokens_make_no_sequence(corpus):
    packed = corpus[0:1].pack("tokens", 4)

    assert len(packed.loader(batch_size=2)) == 0
    assert list(packed.loader(batch_size=2)) == []


def test_a_pickled_loader_goes_on_where_it_is(corpus):
    loader = corpus.pack("tokens", 4, eos=0).loader(batch_size=3, shuffle="full")
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))

    assert [b["tokens"].tolist() for b in copy] == [b["tokens"].tolist() for b in batches]


def test_a_state_returns_to_its_version():
    ds = tl.create("memory://loader-packing-moves", {"tokens": tl.Array("uint16", (None,))})
    ds.extend({"tokens": [[1, 2, 3], [4, 5]]})
    ds.commit("two")
    loader = ds.pack("tokens", 2).loader(batch_size=1)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [batch["tokens"].tolist() for batch in batches]
    ds.extend({"tokens": [[6] * 9]})
    ds.commit("a third")

    resumed = ds.pack("tokens", 2).loader(batch_size=1)
    with pytest.warns(tl.NewerVersionWarning):
        resumed.load_state_dict(state)

    assert [batch["tokens"].tolist() for batch in resumed] == rest


def test_a_state_of_packed_rows_names_what_the_plain_loader_lacks(corpus):
    packed = corpus.pack("tokens", 8, eos=0).loader(batch_size=2)

    with pytest.raises(
        StateMismatchError, match=r"'pack tokens 8.*reads the rows themselves"
    ) as caught:
        corpus.loader(batch_size=2).load_state_dict(packed.state_dict())

    assert "view.pack(…)" in str(caught.value).splitlines()[-1]


def test_a_state_of_another_packing_is_refused(corpus):
    state = corpus.pack("tokens", 4, eos=0).loader(batch_size=2).state_dict()

    with pytest.raises(StateMismatchError, match="recorded 'pack tokens 4 eos=0', given 'pack tok"):
        corpus.pack("tokens", 8, eos=0).loader(batch_size=2).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="reads the rows themselves"):
        corpus.loader(batch_size=2, columns=["fixed"]).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="recorded 'not packed'"):
        corpus.pack("tokens", 8).loader(batch_size=2).load_state_dict(
            corpus.loader(batch_size=2, columns=["fixed"]).state_dict()
        )


def test_explain_counts_sequences(corpus):
    packed = corpus.pack("tokens", 8, eos=0)

    assert (
        "packed into 10 sequences of 8 tokens of 'tokens'" in packed.loader(batch_size=2).explain()
    )
    assert repr(packed).startswith("Packed sequences of 8 tokens of 'tokens', from 20 rows")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tokens": "text"}, "one array of numbers per document, and 'text' is"),
        ({"tokens": "image"}, "one array of numbers per document"),
        ({"tokens": "none"}, "none"),
        ({"length": 0}, "length must be an integer from 1"),
        ({"length": 2.5}, "length must be an integer"),
        ({"eos": -1}, "eos=-1 is not a value of 'tokens', whose tokens are uint16"),
        ({"eos": 1 << 16}, "eos=65536"),
        ({"mask": "text"}, "'text' is"),
    ],
)
def test_impossible_packings_are_refused(corpus, arguments, words):
    with pytest.raises((InvalidInputError, tl.errors.TensorNotFoundError), match=words):
        corpus.pack(**({"tokens": "tokens", "length": 4} | arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": ["_row"]}, "columns=.*about rows, and batches have sequences"),
        ({"transform": dict}, "transform="),
        ({"on_error": "skip"}, "without the damaged documents"),
        ({"collate": {"tokens": "pad"}}, "collate of packed 'tokens' is 'concat'"),
        ({"collate": {"mask": "list"}}, "collate of a packed loader is for 'tokens'"),
    ],
)
def test_arguments_about_rows_are_refused(corpus, arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        corpus.pack("tokens", 4).loader(batch_size=2, **arguments)


def test_other_steps_come_later(corpus):
    with pytest.raises(UnsupportedFeatureError, match=r"tl\.decode\.Cast"):
        corpus.pack("tokens", 4).loader(batch_size=2, decode={"tokens": tl.decode.ToFloat()})


def test_tokens_that_a_dtype_lacks_are_refused(corpus):
    def batches(dtype, eos=None):
        cast = {"tokens": tl.decode.Cast(dtype)}
        return corpus.pack("tokens", 4, eos=eos).loader(batch_size=2, decode=cast)

    assert next(iter(batches("uint8")))["tokens"].dtype == np.uint8  # all are below 256
    with pytest.raises(InvalidInputError, match="eos=300 is not a value of uint8"):
        batches("uint8", eos=300)
    ds = tl.create("memory://loader-packing-wide", {"tokens": tl.Array("uint16", (None,))})
    ds.extend({"tokens": [[1, 300]]})
    ds.commit("one")
    cast = {"tokens": tl.decode.Cast("int8")}
    with pytest.raises(InvalidInputError, match="the batch has 300, and int8 holds -128 to"):
        list(ds.pack("tokens", 2).loader(batch_size=2, decode=cast))


def test_more_tokens_than_positions_count_are_refused(corpus):
    with pytest.raises(InvalidInputError, match="length must be an integer"):
        corpus.pack("tokens", 10**12)
    with pytest.raises(InvalidInputError, match="a batch has at most 2,147,483,647"):
        corpus.pack("tokens", 10**9).loader(batch_size=3)


def test_null_documents_and_uneven_masks_are_named(corpus):
    with pytest.raises(InvalidInputError, match="'maybe' is NULL at position 11"):
        len(corpus.pack("maybe", 4).loader(batch_size=2))
    with pytest.raises(InvalidInputError, match="mask='fixed' has 3 numbers in row 5, whose doc"):
        len(corpus[5:].pack("tokens", 4, mask="fixed").loader(batch_size=2))
