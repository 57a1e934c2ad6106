"""Mixes: every source's rows once an epoch of its own, weights everywhere, any part at any time."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.shuffle import derive_words
from tensorlake.loader.plan.stretches import stretch_of
from tensorlake.loader.sources.mix.plan import (
    MixPlan,
    PlannedSource,
    first_span,
    source_seed,
)
from tensorlake.loader.sources.mix.shares import ENDLESS, MixNode, Shares
from tensorlake.loader.sources.mix.weights import (
    SPAN_PLACES,
    Spans,
    assign_places,
    count_taken,
    places_until,
    units_of,
)
from tests.support.examples import examples

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "plan.md"

weights = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)
units = weights.map(units_of)
orders = st.one_of(
    st.just(Order("none")),
    st.just(Order("full")),
    st.builds(Order, st.just("window"), st.integers(1, 40), st.integers(1, 9)),
)


def shares_of(weighted, stop="never", stages=()):
    node = MixNode(tuple(range(len(weighted))), tuple(weighted), stop, stages=stages)
    return Shares(node, len(weighted))


def plan_of(rows, weighted, stop, *, seed=7, epoch=0, order=None, version=2):
    starts = np.cumsum([0, *rows])
    order = replace(order or Order("full"), version=version)
    sources = tuple(
        PlannedSource(f"source {number}", order, count, int(starts[number]))
        for number, count in enumerate(rows)
    )
    shares = shares_of(weighted, stop)
    places = shares.num_places(rows)
    spans = Spans(shares, first_span(shares.at(0), 0 if stop == "never" else places, epoch))
    return MixPlan(sources, spans, seed, epoch, places, version)


def assigned_one_by_one(own_units, places):
    """Follow the reference page, one place at a time in plain integers."""
    source, before = [], []
    for place in range(places):
        reached, left = place, sum(own_units)
        for number, own in enumerate(own_units):
            taken = (reached * own + left // 2) // left if own else 0
            after = ((reached + 1) * own + left // 2) // left if own else 0
            if after > taken:
                source.append(number)
                before.append(taken)
                break
            reached, left = reached - taken, left - own
    return source, before


@given(units, st.integers(0, 300))
def test_places_are_assigned_as_the_reference_page_says(own_units, places):
    source, taken = assign_places(own_units, np.arange(places))

    assert (source.tolist(), taken.tolist()) == assigned_one_by_one(own_units, places)


@given(units, st.integers(0, 2**61), st.integers(1, 1000))
def test_counts_and_assignments_agree_at_any_place(own_units, start, length):
    source, taken = assign_places(own_units, np.arange(start, start + length))

    before, after = count_taken(own_units, start), count_taken(own_units, start + length)
    counts = np.bincount(source, minlength=len(own_units))
    assert counts.tolist() == [b - a for a, b in zip(before, after, strict=True)]
    assert sum(before) == start
    for number in range(len(own_units)):
        own = taken[source == number]
        assert own.tolist() == list(range(before[number], after[number]))


@given(weights, st.integers(0, 10**6), st.integers(1, 10**6))
def test_any_stretch_holds_the_weights_to_within_a_few_rows(given_weights, start, length):
    own_units = units_of(given_weights)
    before, after = count_taken(own_units, start), count_taken(own_units, start + length)

    for number, own in enumerate(own_units):
        share = length * own / sum(own_units)
        assert abs(after[number] - before[number] - share) <= 1 + len(own_units) / 2


@given(units, st.integers(0, 5), st.integers(1, 10**7))
def test_the_end_of_a_source_is_the_first_place_that_has_its_rows(own_units, source, rows):
    source %= len(own_units)

    places = places_until(own_units, source, rows)

    assert count_taken(own_units, places)[source] == rows
    assert count_taken(own_units, places - 1)[source] == rows - 1


@examples(10)  # sources of a few rows have many epochs: 30 ms a mix
@given(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.05, 10)), min_size=1, max_size=4),
    st.sampled_from(["first", "all"]),
    orders,
    st.integers(0, 3),
)
def test_each_source_gives_every_row_once_before_any_again(sources, stop, order, seed):
    rows = [count for count, _ in sources]
    weighted = [weight for _, weight in sources]
    starts = np.cumsum([0, *rows])
    given_rows = [[] for _ in rows]
    for epoch in range(3):
        plan = plan_of(rows, weighted, stop, seed=seed, epoch=epoch, order=order)
        positions = plan.at(np.arange(plan.num_rows))
        for number, listed in enumerate(given_rows):
            own = positions[(positions >= starts[number]) & (positions < starts[number + 1])]
            listed.extend((own - starts[number]).tolist())

    for count, listed in zip(rows, given_rows, strict=True):
        for begin in range(0, len(listed) - count + 1, count):
            assert sorted(listed[begin : begin + count]) == list(range(count))
    ends = [len(listed) >= 3 * count for listed, count in zip(given_rows, rows, strict=True)]
    assert all(ends) if stop == "all" else any(ends)


@examples(10)  # as above
@given(st.integers(0, 2000), st.integers(0, 2000), st.sampled_from(["first", "all", "never"]))
def test_any_part_of_a_mix_equals_that_part_of_the_whole(start, stop, until):
    plan = plan_of([30, 7, 400], [1, 2.5, 3], until)
    start, stop = sorted((min(start, plan.num_rows), min(stop, plan.num_rows)))
    whole = plan.at(np.arange(min(2000, plan.num_rows)))

    assert np.array_equal(plan.at(np.arange(start, stop)), whole[start:stop])
    assert np.array_equal(plan.at(np.arange(start, stop, 3)), whole[start:stop:3])


def test_a_place_far_away_costs_no_more_than_a_near_one():
    plan = plan_of([10**12, 10**6], [3, 1], "never")

    positions = plan.at(np.arange(ENDLESS - 8, ENDLESS))

    assert np.count_nonzero(positions < 10**12) == 6


def test_weights_that_change_leave_no_row_out_and_none_twice():
    shares = shares_of([1.0, lambda place: place / SPAN_PLACES])
    rising = Spans(shares, first_span([1, 0], 0, 0))
    sources = (
        PlannedSource("a", Order("full"), 1000, 0),
        PlannedSource("b", Order("full"), 1000, 1000),
    )
    plan = MixPlan(sources, rising, 3, 0, ENDLESS, 2)

    positions = plan.at(np.arange(3 * SPAN_PLACES))

    counts = np.bincount(positions, minlength=2000)
    for own in (counts[:1000], counts[1000:]):
        assert own.max() - own.min() <= 1
    assert counts[1000:].sum() == SPAN_PLACES // 2 + round(SPAN_PLACES * 2 / 3)


def leaf_weights(tree):
    """The sources of a tree of (weight, number or tree), with the product of their shares."""
    total = sum(weight for weight, _ in tree)
    found = {}
    for weight, part in tree:
        inner = {part: 1.0} if isinstance(part, int) else leaf_weights(part)
        found |= {number: weight / total * share for number, share in inner.items()}
    return found


def numbered(tree, count=0):
    """Number the sources of a tree of weights, in the order in which they are listed."""
    made = []
    for weight, inner in tree:
        if inner is None:
            made.append((weight, count))
            count += 1
        else:
            part, count = numbered(inner, count)
            made.append((weight, part))
    return made, count


def node_of(tree, stop="never"):
    parts = tuple(part if isinstance(part, int) else node_of(part) for _, part in tree)
    return MixNode(parts, tuple(weight for weight, _ in tree), stop)


trees = st.recursive(
    st.lists(st.tuples(st.floats(0.1, 10), st.none()), min_size=1, max_size=3),
    lambda inner: st.lists(
        st.tuples(st.floats(0.1, 10), st.one_of(st.none(), inner)), min_size=1, max_size=3
    ),
    max_leaves=8,
)


@given(trees)
def test_sources_of_mixes_inside_have_the_product_of_the_shares(tree):
    tree, count = numbered(tree)

    weights = Shares(node_of(tree), count).at(0)

    expected = leaf_weights(tree)
    assert np.allclose(np.array(weights) / sum(weights), [expected[one] for one in range(count)])


@pytest.mark.slow
@examples(20)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=3, unique=True).map(sorted),
    st.lists(weights.filter(lambda one: len(one) == 3), min_size=4, max_size=4),
    st.lists(st.integers(5, 60), min_size=3, max_size=3),
    st.integers(0, 4000),
)
def test_stages_are_spans_and_every_source_goes_on(starts, weighted, rows, start):
    stages = tuple(
        (place, MixNode((0, 1, 2), tuple(own)))
        for place, own in zip(starts, weighted[1:], strict=False)
    )
    shares = shares_of(weighted[0], stages=stages)
    firsts = np.cumsum([0, *rows])
    sources = tuple(
        PlannedSource(str(number), Order("full"), count, int(firsts[number]))
        for number, count in enumerate(rows)
    )
    plan = MixPlan(sources, Spans(shares, first_span(shares.at(0), 0, 0)), 5, 0, ENDLESS, 2)

    whole = plan.at(np.arange(4500))

    source = np.searchsorted(firsts[1:], whole, "right")
    borders = [0, *starts, 4500]
    for number, (begin, end) in enumerate(itertools.pairwise(borders)):
        expected = count_taken(units_of(weighted[number]), end - begin)
        found = np.bincount(source[begin:end], minlength=3)
        # the last stage goes on: its last stretch is not whole here
        assert np.abs(found - expected).max() <= (16 if end == borders[-1] else 0)
    for number, count in enumerate(rows):
        own = whole[source == number]
        for epoch in range(0, len(own) - count + 1, count):
            assert len(np.unique(own[epoch : epoch + count])) == count
    # a plan from the span that a state recorded gives the same
    late = Spans(shares, plan.spans.at(start))
    resumed = MixPlan(sources, late, 5, 0, ENDLESS, 2)
    assert np.array_equal(resumed.at(np.arange(start, 4500)), whole[start:])


# ---- never to change

GOLDEN = {
    # (version, order, rows, weights, stop, seed, epoch): places an epoch, the first positions
    (1, "none", (6, 4, 2), (0.5, 0.3, 0.2), "first", 0, 0): (8, [0, 6, 1, 10, 2, 7, 3, 11]),
    (1, "full", (6, 4, 2), (0.5, 0.3, 0.2), "all", 0, 0): (
        12,
        [2, 8, 4, 11, 1, 6, 3, 10, 5, 7, 0, 9],
    ),
    (1, "full", (6, 4, 2), (0.5, 0.3, 0.2), "all", 0, 1): (
        12,
        [0, 9, 3, 10, 4, 8, 5, 11, 2, 7, 1, 6],
    ),
    (1, "full", (1000000, 30), (0.9, 0.1), "never", 7, 0): (
        "endless",
        [
            757227,
            296218,
            831405,
            393254,
            245182,
            1000028,
            508493,
            452163,
            362442,
            566481,
            259326,
            155091,
            461453,
            756963,
            918099,
            1000005,
        ],
    ),
    (2, "none", (6, 4, 2), (0.5, 0.3, 0.2), "first", 0, 0): (8, [0, 1, 6, 7, 10, 2, 11, 3]),
    (2, "full", (6, 4, 2), (0.5, 0.3, 0.2), "all", 0, 0): (
        12,
        [3, 2, 9, 7, 10, 6, 11, 1, 5, 4, 8, 0],
    ),
    (2, "full", (6, 4, 2), (0.5, 0.3, 0.2), "all", 0, 1): (
        12,
        [3, 0, 1, 11, 10, 8, 7, 6, 2, 4, 5, 9],
    ),
    (2, "full", (1000000, 30), (0.9, 0.1), "never", 7, 0): (
        "endless",
        [
            755318,
            110266,
            734787,
            512821,
            787441,
            636590,
            417247,
            1000005,
            997719,
            38689,
            221623,
            862127,
            472591,
            786429,
            55390,
            1000029,
        ],
    ),
}


def golden_plan(case):
    version, kind, rows, weighted, stop, seed, epoch = case
    order = Order(kind)
    return plan_of(rows, weighted, stop, seed=seed, epoch=epoch, order=order, version=version)


@pytest.mark.parametrize(("case", "expected"), GOLDEN.items())
def test_the_mix_is_the_golden_one_and_the_reference_page_prints_it(case, expected):
    version, kind, rows, weighted, stop, seed, epoch = case
    plan = golden_plan(case)
    count = min(16, plan.num_rows)
    shown = "endless" if stop == "never" else plan.num_rows

    assert (shown, plan.at(np.arange(count)).tolist()) == expected

    cells = [
        str(version),
        kind,
        " ".join(map(str, rows)),
        " ".join(map(str, weighted)),
        stop,
        str(seed),
        str(epoch),
        str(shown),
        " ".join(map(str, expected[1])),
    ]
    assert f"| {' | '.join(cells)} |" in REFERENCE.read_text(encoding="utf-8")


STAGES = {
    # order, seed: the first positions of 6, 4 and 2 rows, weights 0.5 0.3 0.2, from 5 on 0 1 1
    ("none", 0): [0, 1, 2, 6, 10, 11, 10, 7, 8, 9, 11, 6, 10, 11, 7, 8],
    ("full", 7): [5, 3, 0, 10, 9, 7, 6, 11, 11, 8, 7, 8, 6, 9, 9, 10],
}


@pytest.mark.parametrize(("case", "expected"), STAGES.items())
def test_a_staged_mix_is_the_golden_one_and_the_reference_page_prints_it(case, expected):
    kind, seed = case
    shares = shares_of((0.5, 0.3, 0.2), stages=((5, MixNode((1, 2), (1, 1))),))
    starts, rows = (0, 6, 10), (6, 4, 2)
    sources = tuple(
        PlannedSource(str(number), Order(kind), count, starts[number])
        for number, count in enumerate(rows)
    )
    plan = MixPlan(sources, Spans(shares, first_span(shares.at(0), 0, 0)), seed, 0, ENDLESS, 2)

    assert plan.at(np.arange(16)).tolist() == expected
    row = f"| {kind} | {seed} | {' '.join(map(str, expected))} |"
    assert row in REFERENCE.read_text(encoding="utf-8")


def test_a_mix_inside_has_the_golden_weights_and_the_reference_page_prints_them():
    inner = MixNode((1, MixNode((2, 3), (0.2, 0.6))), (2, 3))

    weights = Shares(MixNode((0, inner), (0.3, 0.7)), 4).at(0)

    row = f"| 0.3 · 0.7 (2 · 3 (0.2 · 0.6)) | {' · '.join(map(str, weights))} |"
    assert row in REFERENCE.read_text(encoding="utf-8")


@pytest.mark.parametrize("version", [1, 2])
def test_a_source_has_the_seed_of_the_reference_page(version):
    first = source_seed(0, 0, version)
    one = plan_of([50], [1], "first", seed=0, version=version)
    alone = build_access_plan(PlanKey("any", Order("full", version=version), first, 0), 50)

    assert str(first) in REFERENCE.read_text(encoding="utf-8")
    assert np.array_equal(one.at(np.arange(50)), alone.positions(0, 50))


def word_to_sort_by(place: int, keys: tuple[int, ...]) -> int:
    mask, word = (1 << 64) - 1, place
    for key in keys:
        word = ((word + key) * 0x9E3779B97F4A7C15) & mask
        word ^= word >> 32
        word = (word * 0xD1B54A32D192ED03) & mask
        word ^= word >> 32
    return word


def test_sources_of_a_stretch_are_arranged_as_the_reference_page_says():
    rows, weighted = [300, 200, 77], [0.5, 0.3, 0.2]
    plan = plan_of(rows, weighted, "all", seed=5, epoch=1)
    keys = derive_words(2, seed=5, epoch=1, purpose="places")
    count = plan.num_rows
    source, _ = assigned_one_by_one(units_of(weighted), count)
    expected = []
    for start in range(0, count, stretch_of(3)):
        places = range(start, min(start + stretch_of(3), count))
        ranked = sorted(places, key=lambda place: word_to_sort_by(place, keys))
        listed = sorted(source[place] for place in places)
        of_place = dict(zip(ranked, listed, strict=True))
        expected += [of_place[place] for place in places]

    positions = plan.at(np.arange(count))

    starts = np.cumsum([0, *rows])
    assert (np.searchsorted(starts, positions, "right") - 1).tolist() == expected


def test_a_rank_sees_every_source_of_a_mix_with_as_many_as_a_batch_has_rows():
    plan = plan_of([1300] * 1000, [1.0] * 1000, "never")
    batches = (plan.at(np.arange(20_000)) // 1300).reshape(20, 1000)

    assert len(np.unique(batches[:, :250])) > 950  # one plan version before: 250, for ever
