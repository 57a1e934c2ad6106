"""Batches by tokens, and ranks balanced by them: budgets, borders, states, other worlds."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, ShortBatchWarning
from tensorlake.loader.plan import token_batches

NAMES = itertools.count()
ROWS, BUDGET = 700, 900
LENGTHS = np.random.default_rng(5).integers(0, 120, ROWS)
LENGTHS[:9] = 0


@pytest.fixture(scope="module")
def dataset():
    schema = {"tokens": tl.Array("uint16", (None,)), "label": "int64"}
    with tl.create(f"memory://batching-{next(NAMES)}", schema) as made:
        for rows in (range(300), range(300, ROWS)):
            tokens = [np.full(LENGTHS[row], row, np.uint16) for row in rows]
            made.extend({"tokens": tokens, "label": [row % 5 for row in rows]})
            made.commit("documents")
        yield made


def loader_of(dataset, **arguments):
    given = {"batch_size": BUDGET, "batch_by": "tokens", "shuffle": True, "seed": 4}
    return dataset.loader(**{"columns": ["tokens", "_row"]} | given | arguments)


def rows_of(loader):
    return [batch["_row"] for batch in loader]


def cost(rows, *, padded=False):
    lengths = np.maximum(LENGTHS[rows], 1)
    return int(lengths.max() * len(rows) if padded else lengths.sum())


def greedy(order, budget, *, padded=False):
    """The batches of an order, row by row."""
    batches = [[]]
    for row in order:
        if batches[-1] and cost([*batches[-1], row], padded=padded) > budget:
            batches.append([])
        batches[-1].append(int(row))
    return batches


@pytest.mark.parametrize("collate", ["list", "pad", "concat", tl.collate.Pad(multiple_of=16)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_batch_ends_before_the_row_that_exceeds_its_budget(dataset, collate, shuffle):
    loader = loader_of(dataset, collate={"tokens": collate}, shuffle=shuffle)
    order = loader.plan.rows_at(np.arange(ROWS))

    batches = [*loader]

    listed = [batch["_row"].tolist() for batch in batches]
    assert len(batches) == len(loader_of(dataset, collate={"tokens": collate}, shuffle=shuffle))
    assert [row for batch in listed for row in batch] == order.tolist()
    if collate in ("list", "concat"):
        assert listed == greedy(order, BUDGET)
    elif collate == "pad":
        assert listed == greedy(order, BUDGET, padded=True)
    if isinstance(batches[0]["tokens"], np.ndarray):
        assert max(batch["tokens"].size for batch in batches) <= BUDGET


def test_the_longest_length_is_that_of_pad_to(dataset):
    loader = loader_of(dataset, collate={"tokens": tl.collate.Pad(to=128)})

    assert {len(rows) for rows in rows_of(loader)} == {BUDGET // 128}


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_have_the_parts_of_the_same_batches(dataset, world):
    alone = rows_of(loader_of(dataset, batch_size=None, global_batch_size=BUDGET))
    ranks = [
        loader_of(dataset, batch_size=None, global_batch_size=BUDGET, rank=rank, world_size=world)
        for rank in range(world)
    ]

    counted = [len(one) for one in ranks]
    parts = [np.concatenate(rows) for rows in zip(*map(rows_of, ranks), strict=True)]

    assert [part.tolist() for part in parts] == [one.tolist() for one in alone]
    assert counted == [len(alone)] * world


@pytest.mark.parametrize("arguments", [{"balance": "tokens"}, {"balance": "squares"}, {}])
@pytest.mark.parametrize("shuffle", [True, "window"])
@pytest.mark.parametrize("world", [1, 3])
def test_a_state_goes_on_on_other_ranks_with_other_budgets(dataset, arguments, shuffle, world):
    loader = loader_of(dataset, shuffle=shuffle, **arguments)
    passed = iter(loader)
    before = [next(passed)["_row"] for _ in range(20)]
    state = json.loads(json.dumps(loader.state_dict()))
    passed.close()
    ranks = [
        loader_of(
            dataset, batch_size=300, shuffle=shuffle, rank=rank, world_size=world, **arguments
        )
        for rank in range(world)
    ]
    for one in ranks:
        one.load_state_dict(state)

    after = np.concatenate([np.concatenate(rows_of(one)) for one in ranks])

    assert len(json.dumps(state)) < 1024
    assert state["batches"]["tokens"] == BUDGET
    assert sorted([*np.concatenate(before), *after]) == list(range(ROWS))


@pytest.mark.parametrize("balance", ["tokens", "squares"])
def test_ranks_have_about_as_many_tokens(dataset, balance):
    ranks = [loader_of(dataset, balance=balance, rank=rank, world_size=4) for rank in range(4)]
    power = 2 if balance == "squares" else 1

    whole = list(zip(*map(rows_of, ranks), strict=True))[:-1]

    for parts in whole:
        sums = [(np.maximum(LENGTHS[part], 1) ** power).sum() for part in parts]
        assert max(sums) - min(sums) <= 120**power
    costs = [[cost(part) for part in parts] for parts in whole]
    spread = np.mean([max(one) / np.mean(one) for one in costs])
    assert spread < 1.02 if balance == "tokens" else spread < 1.2


@pytest.mark.parametrize("balance", ["tokens", "squares"])
def test_balance_keeps_the_rows_of_each_rank_where_batches_count_rows(dataset, balance):
    make = {"batch_by": None, "batch_size": 16, "balance": balance}
    ranks = [loader_of(dataset, rank=rank, world_size=4, **make) for rank in range(4)]
    alone = rows_of(loader_of(dataset, **make | {"batch_size": 64}))

    whole = list(zip(*map(rows_of, ranks), strict=True))

    for parts, rows in zip(whole, alone, strict=True):
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert sorted(np.concatenate(parts)) == sorted(rows)
    costs = np.array([[cost(part) for part in parts] for parts in whole[:-1]])
    assert (np.ptp(costs, axis=1) <= 120).all()
    assert ranks[0].state_dict()["batches"] == {
        "column": "tokens",
        "balance": balance,
        "world_size": 4,
    }


@pytest.mark.slow
def test_more_ranks_than_rows_repeat_a_row_that_is_not_valid(dataset):
    make = {"batch_size": None, "global_batch_size": 130}
    ranks = [loader_of(dataset, rank=rank, world_size=8, **make) for rank in range(8)]

    with pytest.warns(ShortBatchWarning):
        passes = [list(one) for one in ranks]

    assert len({len(one) for one in passes}) == 1
    valid = np.concatenate([batch["_row"][batch["_valid"]] for one in passes for batch in one])
    assert sorted(valid) == list(range(ROWS))


def test_a_row_beyond_the_budget_is_refused_with_what_helps(dataset):
    longest = int(LENGTHS.max())
    with pytest.raises(InvalidInputError, match=f"{longest} tokens") as caught:
        next(iter(loader_of(dataset, batch_size=100)))
    assert "view.where('LENGTH(\"tokens\") <= 100')" in str(caught.value)

    view = dataset.where("LENGTH(tokens) <= 100")
    assert sum(map(len, rows_of(loader_of(view, batch_size=100)))) == (LENGTHS <= 100).sum()
    assert sum(map(len, rows_of(loader_of(dataset, batch_size=longest)))) == ROWS


@pytest.mark.parametrize(("pad", "fits"), [({"multiple_of": 16}, 96), ({"to": 64}, 0)])
def test_what_helps_a_padded_row_beyond_the_budget_helps(dataset, pad, fits):
    collate = {"tokens": tl.collate.Pad(**pad)}
    view = dataset.where("LENGTH(tokens) <= 64") if "to" in pad else dataset
    budget = 60 if "to" in pad else 100
    with pytest.raises(InvalidInputError, match="with padding") as caught:
        next(iter(loader_of(view, batch_size=budget, collate=collate)))

    assert (f"<= {fits}')" in str(caught.value)) == bool(fits)
    assert ("leaves room for no row" in str(caught.value)) == (not fits)
    if fits:
        fitting = dataset.where(f"LENGTH(tokens) <= {fits}")
        assert sum(map(len, rows_of(loader_of(fitting, batch_size=budget, collate=collate))))


def test_a_row_beyond_the_budget_names_its_source(dataset):
    mixed = tl.mix({"a": (dataset.where("LENGTH(tokens) < 50"), 1), "b": (dataset, 1)})
    row = int(np.argmax(LENGTHS))
    with pytest.raises(InvalidInputError, match=f"row {row} of source 'b' has {LENGTHS.max()} "):
        next(iter(loader_of(mixed, batch_size=100)))


@pytest.mark.parametrize("null", [np.ones(9, np.uint16), [1] * 9])
@pytest.mark.parametrize("collate", ["pad", "list"])
def test_a_null_row_counts_the_tokens_that_null_gives_it(collate, null):
    schema = {"tokens": tl.Array("uint16", (None,), nullable=True)}
    with tl.create(f"memory://batching-{next(NAMES)}", schema) as made:
        made.extend({"tokens": [[1] * 3, None, [1] * 4, None, None, [1] * 2]})
        made.commit("three are NULL")
        given = {"batch_by": "tokens", "null": {"tokens": null}, "collate": {"tokens": collate}}

        with pytest.raises(InvalidInputError, match="row 1 has 9 tokens"):
            next(iter(made.loader(batch_size=8, **given)))
        batches = [*made.loader(batch_size=13, **given)]
        fill = made.loader(batch_size=100, batch_by="tokens", null={"tokens": 0})
        assert [len(row) for batch in fill for row in batch["tokens"]] == [3, 0, 4, 0, 0, 2]

    held = [[len(row) for row in batch["tokens"]] for batch in batches]
    padded = [[3], [9], [4], [9], [9], [2]]
    assert held == (padded if collate == "pad" else [[3, 9], [4, 9], [9, 2]])
    assert all(sum(map(len, batch["tokens"])) <= 13 for batch in batches)


def test_the_last_batch_is_left_out_if_it_is_not_full(dataset):
    loader = loader_of(dataset, drop_last=True)
    order = loader.plan.rows_at(np.arange(ROWS))

    batches = rows_of(loader)

    whole = greedy(order, BUDGET)
    assert [rows.tolist() for rows in batches] == whole[:-1]
    assert loader.epoch == 1
    assert loader.state_dict()["position"] == 0


def test_len_remaining_and_skip_count_the_batches_of_the_epoch(dataset):
    loader = loader_of(dataset)
    batches = rows_of(loader_of(dataset))
    loader.skip(3)

    assert len(loader) == len(batches)
    assert loader.remaining == len(batches) - 3
    assert [rows.tolist() for rows in rows_of(loader)] == [rows.tolist() for rows in batches[3:]]
    loader.skip(10_000)
    assert loader.remaining == 0


@pytest.mark.slow
def test_batches_that_cross_blocks_of_places_have_the_same_borders(dataset, monkeypatch):
    monkeypatch.setattr(token_batches, "BLOCK_PLACES", 7)
    for collate, drop_last in (("list", False), ("pad", True)):
        loader = loader_of(dataset, collate={"tokens": collate}, drop_last=drop_last)
        order = loader.plan.rows_at(np.arange(ROWS))
        expected = greedy(order, BUDGET, padded=collate == "pad")
        expected = expected[: len(expected) - drop_last]

        assert len(loader) == len(expected)
        assert [rows.tolist() for rows in rows_of(loader)] == expected


@pytest.mark.parametrize("order", [{"shuffle": True}, {"stratify": "label"}])
def test_the_borders_of_an_epoch_are_found_once(dataset, order):
    loader = loader_of(dataset, **order)
    whole = len(loader)
    borders = loader._batches(loader.sharding, 0).borders
    left = []
    for _ in loader:
        left.append(loader.remaining)
        loader.progress()
        assert len(loader) == whole
        assert loader._batches(loader.sharding).borders is borders  # raised: found by each call

    assert left == [*range(whole - 1, -1, -1)]


def test_borders_are_those_of_the_epoch_the_budget_and_the_state(dataset):
    loader = loader_of(dataset)
    state = loader_of(dataset, batch_size=300)
    for _, _batch in zip(range(5), state, strict=False):
        recorded = state.state_dict()
    expected = {epoch: len(rows_of_epoch(dataset, epoch)) for epoch in (0, 1, 2)}

    for epoch in (2, 0, 1, 0, 2):
        loader.set_epoch(epoch)
        assert len(loader) == loader.remaining == expected[epoch]
    loader.load_state_dict(recorded)
    order = loader.plan.rows_at(np.arange(recorded["position"], ROWS))
    after = greedy(order, BUDGET)
    assert (len(loader), loader.remaining) == (expected[0], len(after))
    assert [rows.tolist() for rows in rows_of(loader)] == after


def rows_of_epoch(dataset, epoch):
    loader = loader_of(dataset)
    loader.set_epoch(epoch)
    return rows_of(loader)


def test_explain_and_repr_read_no_lengths(dataset):
    loader = loader_of(dataset, balance="tokens", rank=0, world_size=2)

    assert "batches of up to 1,800 tokens of 'tokens', balanced by tokens" in repr(loader)
    assert "a first pass reads the headers of chunks of 'tokens'" in loader.explain()
    assert "lengths" not in loader._batching.__dict__


def test_any_column_of_lists_may_be_counted():
    schema = {"ids": tl.Array("uint16", (None,)), "mask": tl.Array("uint8", (None,))}
    with tl.create(f"memory://batching-{next(NAMES)}", schema) as made:
        made.extend({"ids": [np.ones(5, np.uint16)] * 6, "mask": [np.ones(3, np.uint8)] * 6})
        made.commit("six")

        with pytest.raises(InvalidInputError, match="found 'ids', 'mask'"):
            made.loader(batch_size=10, batch_by="tokens")
        with pytest.raises(InvalidInputError, match="is not a tensor of lists"):
            made.loader(batch_size=10, batch_by="label")
        sizes = {by: len(made.loader(batch_size=10, batch_by=by)) for by in ("ids", "mask")}

    assert sizes == {"ids": 3, "mask": 2}


@pytest.mark.parametrize("by", ["tokens", "ids"])
def test_a_column_that_is_not_selected_is_named_as_such(by):
    with tl.create(
        f"memory://batching-{next(NAMES)}", {"ids": tl.Array("uint16", (None,))}
    ) as made:
        made.extend({"ids": [np.ones(5, np.uint16)] * 6})
        made.commit("six")
        renamed = made.query("SELECT ids AS tokens")

        with pytest.raises(InvalidInputError, match=r"SELECT ids, …") as caught:
            renamed.loader(batch_size=10, batch_by=by)
        chosen = made.query("SELECT ids, ids AS tokens")

        assert "rename_tensor" not in str(caught.value)
        assert len(chosen.loader(batch_size=10, batch_by=by)) == 3


def test_rows_that_have_one_length_or_none_make_no_batches_by_tokens(dataset):
    with pytest.raises(InvalidInputError, match="packed sequences have one length"):
        dataset.pack("tokens", 32).loader(batch_size=64, batch_by="tokens")
    with pytest.raises(InvalidInputError, match="batch_by is 'tokens'"):
        loader_of(dataset, batch_by=3)
    with pytest.raises(InvalidInputError, match="balance is one of"):
        loader_of(dataset, balance="rows")
    assert list(loader_of(dataset[:0])) == []


def test_orders_that_need_a_column_and_mixes_have_batches_by_tokens(dataset):
    stratified = loader_of(dataset, stratify="label")
    mixed = tl.mix({"a": (dataset, 0.5), "b": (dataset[:100], 0.5)}, stop="all")
    loader = loader_of(mixed)
    endless = loader_of(tl.mix({"a": (dataset, 1)}, stop="never"))

    assert sorted(np.concatenate(rows_of(stratified))) == list(range(ROWS))
    assert all(cost(rows) <= BUDGET for rows in rows_of(loader))
    for what in (len, lambda one: one.remaining):
        with pytest.raises(TypeError, match="by tokens"):
            what(loader)
    taken = [batch["_row"] for _, batch in zip(range(60), endless, strict=False)]
    assert all(cost(rows) <= BUDGET for rows in taken)
    assert endless.state_dict()["position"] == sum(map(len, taken))


@pytest.mark.parametrize(
    "arguments", [{}, pytest.param({"balance": "tokens"}, marks=pytest.mark.slow)]
)
def test_a_staged_mix_resumes_past_a_stage(dataset, arguments):
    def made(rank):
        late = tl.mix({"b": (dataset[:50], 1)})
        mixed = tl.mix({"a": (dataset, 1)}, stages=[(60, late)], stop="never")
        return loader_of(mixed, columns=["_row"], rank=rank, world_size=2, **arguments)

    passes = [iter(made(rank)) for rank in range(2)]
    for one in passes:
        for _ in range(8):
            next(one)
    first = made(0)
    for _, _batch in zip(range(8), first, strict=False):
        state = first.state_dict()
    assert state["order"]["span"][0] == 60

    resumed = [made(rank) for rank in range(2)]
    for one in resumed:
        one.load_state_dict(state)  # raised: place 0 is before the 60 that its state recorded

    for one, again in zip(passes, map(iter, resumed), strict=True):
        assert next(one)["_row"].tolist() == next(again)["_row"].tolist()
