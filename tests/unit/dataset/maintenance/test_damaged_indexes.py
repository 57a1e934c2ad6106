"""Damaged indexes of a dataset: found, warned of, and built again."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.errors import DamagedIndexWarning
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import PackReader, iter_references
from tests.support.damage import objects_of
from tests.support.handles import create_on, open_on

LABEL = tl.ClassLabel(["cat", "dog", "owl"])


def explained(dataset, text):
    return dataset.query(text).explain()


def damaged(dataset, part_of="index/price"):
    """Flip a byte in each chunk of an index."""
    store = session_of(dataset).store
    entry = session_of(dataset).head

    async def references():
        return [one async for one in iter_references(entry, PackReader(store))]

    chunks = [
        one
        for one in run(references())
        if one.kind == "chunk" and one.what.startswith(f"{part_of}/")
    ]
    objects = objects_of(store)
    for one in chunks:
        data = bytearray(objects[one.pack.path])
        data[one.offset + one.nbytes - 1] ^= 1
        objects[one.pack.path] = bytes(data)
        run(store.put(one.pack.path, bytes(data)))
    assert chunks


def test_a_damaged_index_is_found_warned_of_and_built_again():
    store = MemoryStore()
    dataset = create_on(store, {"price": "float32"})
    dataset.extend({"price": np.arange(5000) % 10 / 10})
    dataset.create_index("price")
    dataset.commit("indexed")
    damaged(dataset)
    other = open_on(store)

    with pytest.warns(DamagedIndexWarning, match="index 'price'.*cannot be read"):
        found = other.query("WHERE price < 0.05")
    assert found.rows.tolist() == list(range(0, 5000, 10))
    assert any("index/price" in str(one) for one in other.check().findings)

    report = other.repair()

    assert [one.what for one in report.repairs] == ["index 'price' built again"]
    # a warning is an error in this suite
    whole = open_on(store)
    assert "index 'price'" in explained(whole, "WHERE price < 0.05")
    assert whole.query("WHERE price < 0.05").rows.tolist() == list(range(0, 5000, 10))


@pytest.mark.parametrize(
    ("column", "kind", "asked"),
    [
        pytest.param("label", "bitmap", "WHERE label = 'owl'", marks=pytest.mark.slow),
        ("many", "bitmap", "WHERE CONTAINS(many, 'dog')"),
        ("price", "btree", "WHERE price < 0.01"),
        pytest.param("name", "text", "WHERE MATCH(name, 'n3')", marks=pytest.mark.slow),
        (
            "vector",
            "vector",
            "ORDER BY APPROX COSINE_SIMILARITY(vector, [1, 0, 0, 0]) DESC LIMIT 5",
        ),
    ],
)
def test_a_repaired_index_is_whole_and_in_use_again(column, kind, asked):
    store, n = MemoryStore(), np.arange(3000)
    types = {"price": "float32", "name": "str", "vector": tl.Embedding(4)}
    dataset = create_on(store, {"label": LABEL, "many": tl.Sequence(LABEL), **types})
    vectors = np.random.default_rng(2).normal(size=(3000, 4)).astype("f4")
    dataset.extend(
        {
            "label": np.where(n % 50, 0, 2),
            "many": [[1, 0] if i % 40 == 0 else [0] for i in n],
            "price": n % 100 / 100,
            "name": [f"n{i % 40}" for i in n],
            "vector": vectors,
        }
    )
    dataset.create_index(column, kind)
    dataset.commit("indexed")
    used, found = f"index {column!r} ({kind})", dataset.query(asked).rows.tolist()
    assert used in explained(dataset, asked)
    damaged(dataset, f"index/{column}")
    other = open_on(store)
    assert not other.check().ok

    other.repair()

    for whole in (other, open_on(store)):  # a warning is an error in this suite
        report = whole.check()
        assert ": no damage, " in str(report)
        assert all("queries of that version scan the column" in str(one) for one in report.findings)
        assert used in explained(whole, asked)
        assert whole.query(asked).rows.tolist() == found
    assert not open_on(store).repair().repairs
    other.branch("side", at="main@1")
    assert "is damaged" in str(other.check())  # of the newest version of a branch
    other.delete_branch("side")
    other.expire(keep_last=1)
    assert open_on(store).check().ok
