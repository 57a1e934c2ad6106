"""Computed columns of the sources of a mix: batches have them beside the stored ones."""

import numpy as np
import pytest

import tensorlake as tl


def numbers(name, count, start):
    ds = tl.create(
        f"memory://{name}",
        {"id": "int64", "v": "float64", "t": "str", "e": tl.Array("int64", (None,))},
    )
    add_rows(ds, count, start)
    ds.add_tensor("d", "float64", compute="v * 2")
    ds.add_tensor("u", "str", compute="UPPER(t)")
    ds.add_tensor("f", tl.Array("int64", (None,)), compute="e + 1")
    ds.commit("numbers")
    return ds


def add_rows(ds, count, start):
    ids = np.arange(start, start + count)
    texts, lists = [f"t{one}" for one in ids], [[*range(one % 3)] for one in ids]
    ds.extend({"id": ids, "v": ids / 4, "t": texts, "e": lists})


@pytest.fixture
def sources(request):
    name = request.node.name
    return numbers(f"{name}-a", 6, 0), numbers(f"{name}-b", 9, 100)


def check(batch):
    assert batch["d"].tolist() == (batch["v"] * 2).tolist()
    assert batch["u"] == [text.upper() for text in batch["t"]]
    ones = [(one + 1).tolist() for one in batch["e"]]
    assert [one.tolist() for one in batch["f"]] == ones


LISTS = {"collate": {"e": "list", "f": "list"}}


def test_batches_of_a_mix_have_what_expressions_compute(sources):
    first, second = sources
    mixed = tl.mix({"a": (first, 1.0), "b": (second, 2.0)}, stop="all")

    batches = [*mixed.loader(batch_size=4, seed=1, shuffle=True, **LISTS)]

    for batch in batches:
        check(batch)
    seen = {int(one) for batch in batches for one in batch["id"]}
    assert seen == {*range(6), *range(100, 109)}


def test_columns_of_queries_can_be_named(sources):
    views = [one.query("SELECT id, v, v * 3 AS w WHERE id % 2 = 0") for one in sources]
    mixed = tl.mix({"a": (views[0], 1.0), "b": (views[1], 1.0)})

    for batch in mixed.loader(batch_size=2, columns=["w", "v"]):
        assert [*batch] == ["w", "v"]
        assert batch["w"].tolist() == (batch["v"] * 3).tolist()


def test_a_mix_goes_on_with_the_columns_of_the_version_that_a_state_records(sources):
    first, second = sources

    def loader():
        mixed = tl.mix({"a": (first, 1.0), "b": (second, 1.0)})
        return mixed.loader(batch_size=3, seed=2, shuffle=True, **LISTS)

    expected = [batch["d"].tolist() for batch in loader()]
    begun = loader()
    batches = iter(begun)
    next(batches)
    state = begun.state_dict()
    batches.close()
    first["v"][:] = 0.0
    first.commit("other values")
    resumed = loader()

    with pytest.warns(tl.NewerVersionWarning):
        resumed.load_state_dict(state)

    rest = [*resumed]
    for batch in rest:
        check(batch)
    assert [batch["d"].tolist() for batch in rest] == expected[1:]


def test_a_mix_that_advances_has_the_columns_of_the_new_version(sources):
    first, second = sources
    mixed = tl.mix({"a": (first, 1.0), "b": (second, 1.0)}, stop="all")
    loader = mixed.loader(batch_size=2, seed=3, shuffle=True, **LISTS)
    batches = iter(loader)
    check(next(batches))
    batches.close()
    add_rows(first, 3, 50)
    first.commit("more rows")

    loader.advance({"a": first.version})

    rest = [*loader]
    for batch in rest:
        check(batch)
    assert {50, 51, 52} <= {int(one) for batch in rest for one in batch["id"]}


def test_a_column_that_is_computed_in_one_source_and_stored_in_another_is_refused(sources):
    first, _ = sources
    stored = first[:].materialize("memory://stored-for-a-mix")
    mixed = tl.mix({"a": (first, 1.0), "b": (stored, 1.0)})

    with pytest.raises(tl.SchemaError, match=r"'d' is computed \(float64(.|\n)*stored in 'b'"):
        mixed.loader(batch_size=2, columns=["id", "d"])
    other = first.query("SELECT id, CAST(v AS int64) AS d")
    unlike = tl.mix({"a": (first, 1.0), "b": (other, 1.0)})
    with pytest.raises(tl.SchemaError, match="int64 of shape"):
        unlike.loader(batch_size=2, columns=["d"])
