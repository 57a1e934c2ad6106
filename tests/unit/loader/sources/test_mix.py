"""tl.mix: weights that hold everywhere, epochs of each source, states that continue exactly."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    InvalidInputError,
    SchemaError,
    StateMismatchError,
    TensorNotFoundError,
)
from tensorlake.loader import NewerVersionWarning
from tests.support.handles import wait_for_storage
from tests.unit.loader.conftest import picture, threads_left

NAMES = itertools.count()


def numbers(start, count, url=None):
    dataset = tl.create(url or f"memory://mix-{next(NAMES)}", {"x": "int64", "name": "str"})
    rows = range(start, start + count)
    dataset.extend({"x": rows, "name": [f"row {row}" for row in rows]})
    dataset.commit("rows")
    return dataset


@pytest.fixture(scope="module")
def web():
    return numbers(0, 300)


@pytest.fixture(scope="module")
def code():
    return numbers(1000, 100)


def mixed(web, code, **arguments):
    return tl.mix({"web": (web, 0.75), "code": (code, 0.25)}, **arguments)


def values_of(loader, name="x"):
    return np.concatenate([batch[name] for batch in loader])


def test_every_section_holds_the_weights_to_within_a_few_rows(web, code):
    sources = values_of(mixed(web, code).loader(batch_size=16, shuffle=True), "_source")

    for size in (1, 7, 40, 200):
        codes = np.convolve(sources, np.ones(size), "valid")
        assert np.abs(codes - size / 4).max() <= 3


def test_rows_and_sources_are_told_apart(web, code):
    (batch,) = mixed(web[:30], code[:10], stop="all").loader(
        batch_size=64, columns=["x", "_row", "_source", "name"]
    )

    assert np.array_equal(batch["x"], batch["_row"] + 1000 * batch["_source"])
    assert batch["name"] == [f"row {x}" for x in batch["x"]]


def test_the_first_source_to_end_ends_an_epoch(web, code):
    loader = mixed(web[:31], code).loader(batch_size=10)

    sources = values_of(loader, "_source")

    assert np.bincount(sources).tolist() == [31, 10]
    assert sources[-1] == 0
    assert len(mixed(web[:31], code)) == 41


def test_an_epoch_of_all_gives_each_row_at_least_once(web, code):
    loader = mixed(web, code[:20], stop="all").loader(batch_size=32, shuffle=True, seed=4)

    seen = values_of(loader)

    assert np.array_equal(np.unique(seen), [*range(300), *range(1000, 1020)])
    counts = np.bincount(seen[seen >= 1000] - 1000)
    assert counts.min() >= counts.max() - 1  # 20 rows again and again, evenly


def test_a_source_goes_on_in_the_next_epoch_with_the_rows_it_has_not_given(web, code):
    loader = mixed(web, code[:20]).loader(batch_size=16, shuffle=True, seed=2)
    epochs = [values_of(loader) for _ in range(3)]

    from_web = np.concatenate(epochs)
    from_web = from_web[from_web < 1000]

    assert len(from_web) < 300
    assert len(np.unique(from_web)) == len(from_web)


def test_sources_of_equal_size_are_shuffled_differently(web):
    loader = tl.mix({"one": (web, 1), "two": (web, 1)}).loader(
        batch_size=600, shuffle=True, columns=["_row", "_source"]
    )
    (batch,) = loader

    one, two = (batch["_row"][batch["_source"] == source] for source in (0, 1))

    assert min(len(one), len(two)) == 299  # the first to end ends the epoch
    assert np.count_nonzero(one[:299] == two[:299]) < 12


def test_an_endless_mix_goes_on_and_has_no_length(web, code):
    loader = mixed(web, code, stop="never").loader(batch_size=100, shuffle=True)

    seen = [batch["x"] for batch, _ in zip(loader, range(12), strict=False)]
    with pytest.raises(TypeError, match="never"):
        len(loader)
    with pytest.raises(TypeError, match="never"):
        len(mixed(web, code, stop="never"))

    flat = np.concatenate(seen)
    assert len(np.unique(flat[:400])) == 400  # one epoch of each
    assert len(np.unique(flat[400:800])) == 400  # and the next
    assert threads_left() == []


def test_leaving_the_loop_of_an_endless_mix_loses_no_row(web, code):
    loader = mixed(web, code, stop="never").loader(batch_size=100)
    whole = [batch["x"] for batch, _ in zip(loader, range(8), strict=False)]

    again = mixed(web, code, stop="never").loader(batch_size=100)
    parts = []
    while len(parts) < 8:
        for batch in again:
            parts.append(batch["x"])
            if len(parts) % 3 == 0 or len(parts) == 8:
                break

    assert np.array_equal(np.concatenate(parts), np.concatenate(whole))


@pytest.mark.parametrize("stop", ["first", "all", "never"])
def test_a_state_continues_the_order_on_another_world(web, code, stop):
    def batches(**arguments):
        return mixed(web, code[:30], stop=stop).loader(shuffle=True, seed=5, **arguments)

    whole = iter(batches(batch_size=24))
    expected = [next(whole)["x"] for _ in range(4)]
    first = batches(batch_size=8)
    iterator = iter(first)
    seen = [next(iterator)["x"] for _ in range(5)]
    state = json.loads(json.dumps(first.state_dict()))
    ranks = [batches(batch_size=28, rank=rank, world_size=2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    seen += [next(iter(rank))["x"] for rank in ranks]

    assert np.array_equal(np.concatenate(seen), np.concatenate(expected))
    assert len(json.dumps(state)) < 1024


def curriculum(place):
    return 1.0 if place < 65536 else 3.0


def test_weights_may_be_functions_of_the_place_and_are_recorded(web, code):
    mixture = tl.mix({"web": (web, curriculum), "code": (code, 1)}, stop="never")
    loader = mixture.loader(batch_size=65536, columns=["_source"])

    iterator = iter(loader)
    shares = [np.mean(next(iterator)["_source"]) for _ in range(3)]
    state = loader.state_dict()

    assert shares == [0.5, 0.25, 0.25]
    assert state["order"]["span"] == [3 * 65536, [65536 * 2, 65536]]
    assert [source[3] for source in state["order"]["sources"]] == [3.0, 1]


@pytest.mark.slow
def test_a_state_of_changing_weights_needs_none_of_the_history(web, code):
    def made(weight):
        return tl.mix({"web": (web, weight), "code": (code, 1)}, stop="never").loader(
            batch_size=50_000, columns=["x"], shuffle=True
        )

    loader = made(curriculum)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    other = made(lambda place: 3.0 if place >= 131_072 else 1 / 0)  # asked nowhere before
    other.load_state_dict(state)

    assert np.array_equal(next(iter(other))["x"], next(iterator)["x"])


def test_another_weight_source_or_stop_is_another_order(web, code):
    state = mixed(web, code).loader(batch_size=8).state_dict()

    others = {
        "weights": tl.mix({"web": (web, 0.7), "code": (code, 0.3)}),
        "stop": mixed(web, code, stop="all"),
        "sources": tl.mix({"net": (web, 0.75), "code": (code, 0.25)}),
        "selection": mixed(web[:200], code),
    }
    for name, other in others.items():
        with pytest.raises(StateMismatchError, match=name):
            other.loader(batch_size=8).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="order"):
        mixed(web, code).loader(batch_size=8).load_state_dict(web.loader(batch_size=8).state_dict())
    with pytest.raises(StateMismatchError, match="selection"):
        web.loader(batch_size=8).load_state_dict(state)


def test_a_state_goes_back_to_the_versions_that_it_recorded(code):
    web = numbers(0, 60)
    expected = values_of(mixed(web, code).loader(batch_size=8, shuffle=True))
    loader = mixed(web, code).loader(batch_size=8, shuffle=True)
    iterator = iter(loader)
    seen = [next(iterator)["x"]]
    state = loader.state_dict()
    web.extend({"x": [7], "name": ["late"]})
    web.commit("one more")

    later = mixed(web, code).loader(batch_size=8, shuffle=True)
    with pytest.warns(NewerVersionWarning, match="web main@1"):
        later.load_state_dict(state)
    seen += [batch["x"] for batch in later]

    assert np.array_equal(np.concatenate(seen), expected)


def test_fills_and_images_of_several_sources_mix():
    sources = []
    for number, codec in enumerate(("jpeg", "png")):
        dataset = tl.create(f"memory://mix-{next(NAMES)}", {"image": tl.Image(codec=codec)})
        dataset.extend({"image": [picture(row) for row in range(6)]})
        dataset.add_tensor("kind", "int64", fill=number)
        dataset.commit("pictures")
        sources.append(dataset)
    mixture = tl.mix({"jpeg": (sources[0], 1), "png": (sources[1], 1)})

    (batch,) = mixture.loader(batch_size=64, decode={"image": tl.decode.Resize(8, 8)})

    assert batch["image"].shape == (11, 8, 8, 3)
    assert np.array_equal(batch["kind"], batch["_source"])
    images = batch["image"].astype(int)
    for row in range(5):  # the same picture, once lossy
        jpeg, png = (images[batch["_source"] == one][row] for one in range(2))
        assert np.abs(jpeg - png).mean() < 5


def test_a_first_batch_of_several_sources_is_read_row_by_row():
    sources = []
    for seed in range(2):
        dataset = tl.create(f"memory://mix-{next(NAMES)}", {"image": tl.Image(codec="png")})
        noise = np.random.default_rng(seed).integers(0, 255, (60, 40, 40, 3), dtype=np.uint8)
        dataset.extend({"image": list(noise)})
        dataset.commit("pictures that PNG cannot make small")
        wait_for_storage()  # what is still staged is at hand
        sources.append(tl.open(dataset.url))
    mixture = tl.mix({"one": (sources[0], 1), "other": (sources[1], 1)})
    loader = mixture.loader(
        batch_size=8,
        shuffle=True,
        columns=["image", "_row", "_source"],
        collate={"image": "list"},
    )

    batch = next(iter(loader))

    assert loader.stats().row_reads == 8
    for image, row, source in zip(batch["image"], batch["_row"], batch["_source"], strict=True):
        assert np.array_equal(image, sources[int(source)]["image"][int(row)])


def test_a_loader_of_a_mix_is_the_same_after_pickling(web, code):
    loader = mixed(web, code).loader(batch_size=40, shuffle=True, seed=9)
    iterator = iter(loader)
    next(iterator)

    copy = pickle.loads(pickle.dumps(loader))

    assert np.array_equal(values_of(copy), np.concatenate([b["x"] for b in iterator]))


# ---- refusals


def test_columns_are_those_that_all_sources_have_alike(web):
    other = tl.create(f"memory://mix-{next(NAMES)}", {"x": "float32", "y": "int64"})
    other.extend({"x": [1.0], "y": [1]})
    mixture = tl.mix({"web": (web, 1), "other": (other, 1)})

    with pytest.raises(SchemaError, match=r"'x' is .*int64.* in 'web' and .*float32.* in 'other'"):
        mixture.loader(batch_size=1)
    with pytest.raises(TensorNotFoundError, match="'other' of the mix has no tensor 'name'"):
        mixture.loader(batch_size=1, columns=["name"])


def test_class_names_must_agree():
    sources = []
    for names in (["cat", "dog"], ["dog", "cat"]):
        dataset = tl.create(f"memory://mix-{next(NAMES)}", {"label": tl.ClassLabel(names)})
        dataset.append({"label": "cat"})
        sources.append(dataset)

    with pytest.raises(SchemaError, match="same names"):
        tl.mix({"a": (sources[0], 1), "b": (sources[1], 1)}).loader(batch_size=1)


@pytest.mark.parametrize("weight", [0, -1, "half", True, float("nan"), float("inf")])
def test_a_weight_is_a_number_above_zero(web, weight):
    with pytest.raises(InvalidInputError, match="weight of 'web'"):
        tl.mix({"web": (web, weight)})


def test_what_is_no_mix_is_refused(web, code):
    with pytest.raises(InvalidInputError, match="stop='never'"):
        tl.mix({"web": (web, curriculum)})
    with pytest.raises(InvalidInputError, match="'code' of the mix has no rows"):
        mixed(web, code[:0])
    with pytest.raises(InvalidInputError, match="is a pair"):
        tl.mix({"web": web})
    with pytest.raises(InvalidInputError, match="mix"):
        tl.mix({})
    with pytest.raises(InvalidInputError, match="'first', 'all', 'never'"):
        mixed(web, code, stop="last")
    with pytest.raises(InvalidInputError, match="needs a column 'tokens'"):
        mixed(web, code, by="tokens").loader(batch_size=4)
    with pytest.raises(InvalidInputError, match="aggregate"):
        tl.mix({"web": (web.query("SELECT COUNT(*) AS n"), 1)})


def test_a_function_that_gives_no_weight_is_named_with_its_place(web):
    loader = tl.mix({"web": (web, lambda place: -1.0 if place else 1.0)}, stop="never").loader(
        batch_size=65536, columns=["_source"]
    )
    iterator = iter(loader)
    next(iterator)

    with pytest.raises(InvalidInputError, match=r"-1\.0 at place 65536"):
        next(iterator)
    assert threads_left() == []


@pytest.mark.parametrize("given", ["0.5", None, 1j])
def test_a_function_that_gives_no_number_is_named_with_its_place(web, given):
    mixed = tl.mix({"web": (web, lambda place: given)}, stop="never")

    with pytest.raises(InvalidInputError, match=r"its function returned .* at place 0"):
        mixed.loader(batch_size=4, columns=["_source"]).state_dict()


def test_an_endless_mix_has_one_epoch(web, code):
    loader = mixed(web, code, stop="never").loader(batch_size=8)

    with pytest.raises(InvalidInputError, match="one epoch"):
        loader.set_epoch(1)
    with pytest.raises(TypeError, match="never"):
        _ = loader.remaining


def test_a_weight_may_be_numpys(web, code):
    mixed = tl.mix({"web": (web, np.float32(0.5)), "code": (code, np.int64(1))})

    assert {type(weight) for weight in mixed.weights.values()} == {float, int}


def test_sources_without_a_tensor_in_common_are_refused(web):
    other = tl.create("memory://mix-nothing-in-common", {"body": "str"})
    other.append({"body": "a"})

    with pytest.raises(tl.SchemaError, match="no tensor in common"):
        tl.mix({"web": (web, 1), "other": (other, 1)}).loader(batch_size=2)


def test_a_source_is_named_by_a_text(web, code):
    with pytest.raises(tl.InvalidInputError, match="named by a string, got 1"):
        tl.mix({1: (web, 1), "code": (code, 1)})


def test_a_mix_is_by_rows_or_tokens(web):
    with pytest.raises(InvalidInputError, match="by is 'rows' or 'tokens', got 'words'"):
        tl.mix({"web": (web, 1)}, by="words")


@pytest.fixture
def texts():
    """300 short texts and 200 long ones, of 3 and of 12 tokens on average."""
    made = {}
    for name, count, longest in (("short", 300, 6), ("long", 200, 24)):
        lengths = np.arange(count) % (longest + 1)
        dataset = tl.create(
            f"memory://mix-{next(NAMES)}", {"ids": tl.Array("int32", shape=(None,))}
        )
        dataset.extend({"ids": [np.full(length, 7, np.int32) for length in lengths]})
        dataset.commit("texts")
        made[name] = dataset
    return made


def tokens_of(loader, batches=40):
    counts = np.zeros(2)
    for batch, _ in zip(loader, range(batches), strict=False):
        lengths = [len(one) for one in batch["ids"]]
        counts += np.bincount(batch["_source"], lengths, minlength=2)
    return counts / counts.sum()


def test_shares_of_tokens_are_the_weights_whatever_the_lengths(texts):
    sources = {"short": (texts["short"], 0.5), "long": (texts["long"], 0.5)}

    by_rows = tl.mix(sources, stop="never").loader(batch_size=100, shuffle=True)
    by_tokens = tl.mix(sources, by="tokens", stop="never").loader(batch_size=100, shuffle=True)

    assert tokens_of(by_rows)[0] == pytest.approx(0.2, abs=0.01)
    assert tokens_of(by_tokens)[0] == pytest.approx(0.5, abs=0.01)
    assert "mixed by elements of 'ids', in rows" in by_tokens.explain()


def test_a_mix_by_tokens_goes_on_from_its_state_when_a_source_has_grown(texts):
    sources = {"short": (texts["short"], lambda place: 2.0), "long": (texts["long"], 1)}
    loader = tl.mix(sources, by="tokens", stop="never").loader(batch_size=50, columns=["_row"])
    passed = iter(loader)
    next(passed)
    state = loader.state_dict()
    expected = [next(passed)["_row"].tolist() for _ in range(4)]
    passed.close()
    texts["long"].extend({"ids": [np.zeros(5000, np.int32)]})
    texts["long"].commit("a book")

    again = tl.mix(sources, by="tokens", stop="never").loader(batch_size=50, columns=["_row"])
    with pytest.warns(UserWarning, match="continuing on the versions"):
        again.load_state_dict(state)

    assert [b["_row"].tolist() for b, _ in zip(again, range(4), strict=False)] == expected


@pytest.mark.parametrize("stop", [pytest.param("all", marks=pytest.mark.slow), "never"])
def test_the_state_of_a_mix_of_300_sources_has_less_than_4_kb_and_goes_on(web, stop):
    shares = np.random.default_rng(0).random(300)
    sources = {f"corpus {n} of 300": (web[n : n + 3], float(shares[n])) for n in range(300)}
    loader = tl.mix(sources, stop=stop).loader(batch_size=50, shuffle=True, columns=["x"])
    passed = iter(loader)
    for _ in range(3):
        next(passed)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [next(passed)["x"].tolist() for _ in range(5)]
    passed.close()

    again = tl.mix(sources, stop=stop).loader(batch_size=50, shuffle=True, columns=["x"])
    again.load_state_dict(state)

    assert len(json.dumps(state)) <= 4096
    assert again.state_dict() == state
    assert [batch["x"].tolist() for batch, _ in zip(again, range(5), strict=False)] == expected
    assert "corpus 7 of 300 0." in again.explain()
    others = {f"other {n}": pair for n, pair in enumerate(sources.values())}
    with pytest.raises(tl.StateMismatchError, match="sources"):
        tl.mix(others, stop=stop).loader(batch_size=50, shuffle=True).load_state_dict(state)
    broken = state | {"order": state["order"] | {"packed": state["order"]["packed"][:-9]}}
    with pytest.raises(tl.InvalidInputError, match="is not a mix order"):
        again.load_state_dict(broken)


def test_a_state_of_other_versions_of_sources_lists_them():
    moved, other = numbers(0, 60), numbers(0, 60)
    state = tl.mix({"a": (other[:50], 1), "b": (moved[:50], 1)}).loader(batch_size=4).state_dict()
    moved.delete([3])
    moved.commit("one less")
    later = tl.mix({"a": (other[:50], 1), "b": (moved[:50], 1)}).loader(batch_size=4)

    with pytest.raises(
        StateMismatchError,
        match=r"version +recorded 'a main@1, b main@1', given 'a main@1, b main@2'",
    ):
        later.load_state_dict(state)
