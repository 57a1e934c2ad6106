"""Mixes inside mixes, and stages: places, names, ends, states on other ranks."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError

NAMES = itertools.count()


def numbers(start, count):
    dataset = tl.create(
        f"memory://stages-{next(NAMES)}", {"x": "int64", "tokens": tl.Array("uint16", (None,))}
    )
    rows = range(start, start + count)
    length = 1 + start // 1000
    dataset.extend({"x": rows, "tokens": [np.ones(length, np.uint16) for _ in rows]})
    dataset.commit("rows")
    return dataset


@pytest.fixture(scope="module")
def sets():
    return {"web": numbers(0, 300), "code": numbers(1000, 100), "math": numbers(2000, 60)}


def nested(sets, **arguments):
    inner = tl.mix({"code": (sets["code"], 3), "math": (sets["math"], 1)}, stop="all")
    return tl.mix({"web": (sets["web"], 0.6), "rest": (inner, 0.4)}, **arguments)


def staged(sets, starts=(500, 1200)):
    first, second = starts
    return tl.mix(
        {"web": (sets["web"], 1)},
        stages=[
            (first, tl.mix({"web": (sets["web"], 0.5), "code": (sets["code"], 0.5)})),
            (second, tl.mix({"math": (sets["math"], 0.25), "web": (sets["web"], 0.75)})),
        ],
        stop="never",
    )


def taken(loader, batches):
    found = [batch for _, batch in zip(range(batches), loader, strict=False)]
    return {name: np.concatenate([one[name] for one in found]) for name in ("x", "_source")}


def test_a_mix_inside_a_mix_has_its_share_and_its_proportions(sets):
    mixed = nested(sets, stop="never")

    batch = taken(mixed.loader(batch_size=50, shuffle=True), 20)

    assert mixed.names == ("web", "rest/code", "rest/math")
    assert np.allclose(np.bincount(batch["_source"]), [600, 300, 100], atol=2)
    assert np.array_equal(batch["x"] // 1000, batch["_source"])
    assert "rest  0.4  a mix" in repr(mixed)


@pytest.mark.parametrize(
    ("stop", "inner", "places"),
    [
        ("first", "all", 500),  # the 300 rows of web
        ("first", "first", 333),  # the 100 rows of code
        ("all", "all", 597),  # the 60 rows of math
        ("first", "never", 500),
    ],
)
def test_a_mix_inside_is_used_up_as_its_own_stop_says(sets, stop, inner, places):
    rest = tl.mix({"code": (sets["code"], 3), "math": (sets["math"], 1)}, stop=inner)
    mixed = tl.mix({"web": (sets["web"], 0.6), "rest": (rest, 0.4)}, stop=stop)

    assert abs(len(mixed) - places) <= 2
    assert len(taken(mixed.loader(batch_size=64), 100)["x"]) == len(mixed)


def test_tokens_of_a_mix_inside_are_counted_through_it(sets):
    # rows of web have one token, of code two, of math three
    inner = tl.mix({"code": (sets["code"], 1), "math": (sets["math"], 1)}, by="tokens")
    mixed = tl.mix({"web": (sets["web"], 0.5), "rest": (inner, 0.5)}, by="tokens", stop="never")

    source = taken(mixed.loader(batch_size=170), 40)["_source"]

    tokens = np.bincount(source) * [1, 2, 3]
    assert np.allclose(tokens / tokens.sum(), [0.5, 0.25, 0.25], atol=0.002)


def test_a_mix_in_a_mix_in_a_mix(sets):
    inner = tl.mix({"c": (sets["code"], 1), "m": (sets["math"], 1)})
    middle = tl.mix({"i": (inner, 1), "w": (sets["web"], 1)})
    mixed = tl.mix({"a": (middle, 1), "b": (sets["web"][:40], 1)}, stop="never")

    source = taken(mixed.loader(batch_size=80), 10)["_source"]

    assert mixed.names == ("a/i/c", "a/i/m", "a/w", "b")
    assert np.bincount(source).tolist() == [100, 100, 200, 400]


def test_stages_begin_at_their_places_and_sources_continue(sets):
    mixed = staged(sets)

    batch = taken(mixed.loader(batch_size=100, shuffle=True, seed=1), 20)

    parts = [
        np.bincount(batch["_source"][a:b], minlength=3).tolist()
        for a, b in ((0, 500), (500, 1200), (1200, 2000))
    ]
    assert mixed.names == ("web", "code", "math")
    assert parts == [[500, 0, 0], [350, 350, 0], [600, 0, 200]]
    for source, rows in enumerate((300, 100, 60)):  # in epochs of their own, across stages
        own = batch["x"][batch["_source"] == source]
        assert all(len(set(own[at : at + rows])) == rows for at in range(0, len(own) - rows, rows))
    assert "from place 500: web 0.5, code 0.5" in repr(mixed)


@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("made", [staged, lambda sets: nested(sets, stop="never")])
@pytest.mark.parametrize("batches", [3, pytest.param(13, marks=pytest.mark.slow), 17])
def test_a_state_goes_on_on_any_number_of_ranks(sets, made, world, batches):
    loader = made(sets).loader(batch_size=40, shuffle=True, seed=6)
    passed = iter(loader)
    for _ in range(batches):
        next(passed)
    state = json.loads(json.dumps(loader.state_dict()))
    whole = np.concatenate([next(passed)["x"] for _ in range(30)])
    assert len(json.dumps(state)) < 1024

    ranks = [
        made(sets).loader(batch_size=40 // world, shuffle=True, rank=rank, world_size=world)
        for rank in range(world)
    ]
    for one in ranks:
        one.load_state_dict(state)
    rest = [
        np.concatenate([batch["x"] for batch in parts])
        for _, parts in zip(range(30), zip(*ranks, strict=True), strict=False)
    ]

    assert np.array_equal(np.concatenate(rest), whole)


def test_a_state_has_the_stage_that_it_is_in_and_later_ones_may_change(sets):
    loader = staged(sets).loader(batch_size=100, shuffle=True)
    taken(loader, 8)
    state = loader.state_dict()
    later, now = (
        staged(sets, starts).loader(batch_size=100, shuffle=True)
        for starts in ((500, 5000), (500, 800))
    )

    later.load_state_dict(state)

    assert state["order"]["span"] == [500, [500, 0, 0]]
    assert np.allclose(np.bincount(taken(later, 10)["_source"]), [500, 500], atol=2)
    now.load_state_dict(state)
    assert np.allclose(np.bincount(taken(now, 4)["_source"]), [300, 0, 100], atol=2)


@pytest.mark.parametrize("starts", [(900, 1200), (500, 700), (300, 799)])
def test_a_state_past_another_stage_is_refused_and_the_stages_named(sets, starts):
    loader = staged(sets).loader(batch_size=100, shuffle=True)
    taken(loader, 8)
    other = staged(sets, starts).loader(batch_size=100, shuffle=True)

    with pytest.raises(StateMismatchError, match="differs in stages") as caught:
        other.load_state_dict(loader.state_dict())

    told = str(caught.value)
    assert "place 800 is in the stage from place 500 web 50.0%, code 50.0%" in told
    first, second = starts
    assert "given 'from place 0 web 100.0%; from place" in told
    assert f"from place {first} web 50.0%, code 50.0%; from place {second:,} web 75.0%" in told


@pytest.mark.slow
def test_functions_and_stages_go_together(sets):
    rising = tl.mix(
        {"web": (sets["web"], 1), "code": (sets["code"], lambda place: place / 65536)},
        stages=[(70_000, tl.mix({"math": (sets["math"], 1)}))],
        stop="never",
    )

    source = taken(rising.loader(batch_size=10_000), 8)["_source"]

    assert np.bincount(source[:65536], minlength=3).tolist() == [65536, 0, 0]
    assert np.bincount(source[65536:70_000], minlength=3).tolist() == [2232, 2232, 0]
    assert set(source[70_000:]) == {2}


@pytest.mark.slow
def test_a_state_of_300_sources_in_a_stage_has_less_than_4_kb(sets):
    rng = np.random.default_rng(0)
    views = {f"source {n}": sets["web"][n % 7 :] for n in range(300)}

    def weights():
        return {name: (view, float(rng.random())) for name, view in views.items()}

    mixed = tl.mix(weights(), stages=[(1_000_003, tl.mix(weights()))], stop="never")
    loader = mixed.loader(batch_size=1000, shuffle=True)
    loader.skip(10**7)  # 10¹⁰ rows

    state = json.dumps(loader.state_dict())
    again = tl.mix(  # with the same weights
        {n: (v, w) for (n, v), w in zip(views.items(), mixed.weights.values(), strict=True)},
        stages=mixed.stages,
        stop="never",
    ).loader(batch_size=10, shuffle=True)
    again.load_state_dict(json.loads(state))

    assert len(state) <= 4096
    assert np.array_equal(next(iter(again))["x"], next(iter(loader))["x"][:10])


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ([(0, "mix")], "first at 1 or later"),
        ([(5, {"web": 1})], "mixes without stages"),
        (["later"], "mixes without stages"),
        ([(9, "mix"), (9, "mix")], "at 10 or later"),
        ([(9, "staged")], "mixes without stages"),
        ([(9, "other")], "give it another name"),
    ],
)
def test_stages_that_have_no_order_are_refused(sets, stages, told):
    web = sets["web"]
    made = {
        "mix": tl.mix({"web": (web, 1)}),
        "staged": staged(sets),
        "other": tl.mix({"web": (web[:10], 1)}),
    }
    pairs = [
        (pair[0], made[pair[1]]) if isinstance(pair, tuple) and isinstance(pair[1], str) else pair
        for pair in stages
    ]

    with pytest.raises(InvalidInputError, match=told):
        tl.mix({"web": (web, 1)}, stages=pairs, stop="never")


def test_an_end_that_is_not_known_in_advance_is_refused(sets):
    web, endless = sets["web"], tl.mix({"x": (sets["code"], 1)}, stop="never")

    with pytest.raises(InvalidInputError, match="give stop='never'"):
        tl.mix({"web": (web, 1)}, stages=[(5, endless)])
    with pytest.raises(InvalidInputError, match="give stop='never'"):
        tl.mix({"s": (staged(sets), 1), "web": (web, 1)})
    with pytest.raises(InvalidInputError, match="waits for a mix"):
        tl.mix({"e": (endless, 1), "web": (web, 1)}, stop="all")
    with pytest.raises(InvalidInputError, match="waits for a mix"):
        tl.mix({"e": (endless, 1)})
    with pytest.raises(InvalidInputError, match="two sources"):
        tl.mix({"e": (endless, 1), "e/x": (web, 1)})


@pytest.mark.slow
def test_huge_weights_are_weights(sets):
    mixed = tl.mix({"a": (sets["web"], 1e308), "b": (sets["code"], 1e308)}, stop="never")

    source = taken(mixed.loader(batch_size=100), 1)["_source"]
    assert np.allclose(np.bincount(source), [50, 50], atol=2)
    assert "a 50.0%" in mixed.loader(batch_size=4).explain()


@pytest.mark.slow
def test_explain_lists_the_stages_that_are_to_come(sets):
    loader = staged(sets).loader(batch_size=100, columns=["x"])
    before = loader.explain()
    passed = iter(loader)
    for _ in range(7):
        next(passed)
    state = loader.state_dict()
    passed.close()
    resumed = staged(sets).loader(batch_size=100, columns=["x"])
    resumed.load_state_dict(state)

    assert "from place 500 " in before
    assert "from place 1,200 " in before
    assert "from place 500 " not in resumed.explain()
    assert "from place 1,200 " in resumed.explain()


@pytest.mark.parametrize("weight", [lambda: 1, lambda place: 1 / place])
def test_a_weight_function_that_raises_is_named_with_the_place(sets, weight):
    mixed = tl.mix({"a": (sets["web"], weight)}, stop="never")

    with pytest.raises(
        InvalidInputError, match=r"function .*lambda.* raised .* at place 0"
    ) as told:
        next(iter(mixed.loader(batch_size=4)))
    assert isinstance(told.value.__cause__, TypeError | ZeroDivisionError)
