"""``limit=`` of mixes: shorter epochs, in which each source continues with its remaining rows."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError

NAMES = itertools.count()


def rows(start, count):
    dataset = tl.create(
        f"memory://limited-{next(NAMES)}", {"x": "int64", "tokens": tl.Array("uint16", (None,))}
    )
    tokens = [np.full(1 + row % 5, row) for row in range(count)]
    dataset.extend({"x": range(start, start + count), "tokens": tokens})
    dataset.commit("rows")
    return dataset


@pytest.fixture(scope="module")
def sets():
    return {"web": rows(0, 90), "code": rows(1000, 40), "math": rows(2000, 1)}


def finite(sets, stop="all"):
    inner = tl.mix({"code": (sets["code"], 3), "math": (sets["math"], 1)}, stop="all")
    return tl.mix({"web": (sets["web"], 2), "inner": (inner, 1)}, stop=stop)


def staged(sets):
    late = tl.mix({"code": (sets["code"], 1), "math": (sets["math"], 1)})
    return tl.mix(
        {"web": (sets["web"], 1), "code": (sets["code"], 1)}, stages=[(70, late)], stop="never"
    )


def growing(sets):
    weight = lambda place: 1 + place // 65536  # noqa: E731 - a weight
    return tl.mix({"web": (sets["web"], 1), "code": (sets["code"], weight)}, stop="never")


ENDLESS = {"constant": lambda sets: finite(sets, "never"), "staged": staged, "growing": growing}


def given(loader, count=None):
    batches = list(itertools.islice(loader, count))
    return np.concatenate([batch["x"] for batch in batches]) if batches else np.empty(0, np.int64)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_limited_epoch_has_the_first_places_and_the_next_goes_on(sets, shuffle):
    mixed, arguments = finite(sets), {"batch_size": 7, "shuffle": shuffle, "seed": 2}
    whole, loader = given(mixed.loader(**arguments)), mixed.loader(limit=30, **arguments)

    epochs = [given(loader) for _ in range(9)]

    assert [len(one) for one in epochs] == [30] * 9
    assert len(loader) == 5
    assert epochs[0][:16].tolist() == whole[:16].tolist()  # but for the last stretch, of 16 places
    web = np.concatenate(epochs)
    web = web[web < 1000]
    assert sorted(web[:90]) == list(range(90))  # each row before any of them again
    assert sorted(web[90:180]) == list(range(90))


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_limit_divides_a_mix_that_never_stops_into_epochs(sets, name, shuffle):
    mixed, arguments = ENDLESS[name](sets), {"batch_size": 9, "shuffle": shuffle, "seed": 2}
    endless = given(mixed.loader(**arguments), 30)
    loader = mixed.loader(limit=50, **arguments)

    epochs = [given(loader) for _ in range(5)]
    loader.set_epoch(3)

    assert np.concatenate(epochs).tolist() == endless[:250].tolist()
    assert given(loader).tolist() == endless[150:200].tolist()
    assert len(loader) == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finite", *ENDLESS])
@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
def test_a_state_of_any_batch_goes_on_on_other_ranks(sets, name):
    mixed = finite(sets) if name == "finite" else ENDLESS[name](sets)
    arguments = {"shuffle": True, "seed": 4, "limit": 50}
    loader = mixed.loader(batch_size=9, **arguments)
    whole = [given(loader) for _ in range(3)]
    loader = mixed.loader(batch_size=9, **arguments)
    for epoch in range(2):
        for number, _ in enumerate(loader, start=1):
            state = json.loads(json.dumps(loader.state_dict()))
            world = number % 4 + 1
            columns = ["x", "_valid"]
            ranks = [
                mixed.loader(
                    batch_size=4, rank=rank, world_size=world, columns=columns, **arguments
                )
                for rank in range(world)
            ]
            for one in ranks:
                one.load_state_dict(state)
            rest = [
                part["x"][part["_valid"]] for parts in zip(*ranks, strict=True) for part in parts
            ]
            done = min(9 * number, 50)
            expected = whole[epoch][done:] if done < 50 else whole[epoch + 1]
            assert np.concatenate(rest).tolist() == expected.tolist(), (epoch, number, world)


def test_packed_mixes_and_batches_by_tokens_are_limited_too(sets):
    mixed = tl.mix({"web": (sets["web"], 2), "code": (sets["code"], 1)}, by="tokens", stop="never")
    endless = mixed.pack("tokens", 8).loader(batch_size=5, shuffle=True, seed=1)
    packed = mixed.pack("tokens", 8).loader(batch_size=5, shuffle=True, seed=1, limit=10)
    padded = mixed.loader(batch_size=40, batch_by="tokens", shuffle=True, seed=1, limit=10)

    epochs = [batch["tokens"].tolist() for _ in range(3) for batch in packed]

    assert epochs == [batch["tokens"].tolist() for batch in itertools.islice(endless, 6)]
    assert [len(given(padded)) for _ in range(2)] == [10, 10]


def test_a_limit_above_the_epoch_changes_nothing_and_another_one_is_named(sets):
    mixed, arguments = finite(sets), {"batch_size": 10, "shuffle": True, "seed": 2}
    loader = mixed.loader(limit=10_000, **arguments)

    assert given(loader).tolist() == given(mixed.loader(**arguments)).tolist()
    assert "30 places an epoch" in mixed.loader(limit=30, **arguments).explain()
    with pytest.raises(StateMismatchError, match="num_rows"):
        mixed.loader(limit=30, **arguments).load_state_dict(loader.state_dict())
    endless = finite(sets, "never").loader(limit=2**40, **arguments)
    endless.set_epoch(2**30)
    with pytest.raises(InvalidInputError, match="beyond 2\\*\\*62 places"):
        iter(endless)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weights": {"x": "balanced"}}, "weights"),
        ({"stratify": "x", "limit": 3}, "stratify"),
        ({"group": "x"}, "group"),
        ({"repeat": 2}, "repeat"),
    ],
)
def test_orders_of_one_view_are_refused_with_what_to_write(sets, arguments, named):
    packed = tl.mix({"a": (sets["web"], 1)}, by="tokens").pack("tokens", 8)

    for source in (finite(sets), packed):
        with pytest.raises(InvalidInputError, match=f"{named}= is for the rows of one view") as one:
            source.loader(batch_size=4, **arguments)
        assert one.value.argument == named
        assert "limit=k * len(mix)" in str(one.value)
