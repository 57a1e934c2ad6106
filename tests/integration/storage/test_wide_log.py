"""The log of a dataset of so many tensors that its schema is no part of its entries."""

from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on


def test_the_log_names_tensors_also_where_the_schema_lies_in_a_page():
    store = MemoryStore()
    dataset = create_on(store, {f"tensor-{n:03}": "int8" for n in range(300)})
    dataset.extend({f"tensor-{n:03}": [0, 1] for n in range(300)})
    dataset.commit("rows")
    dataset["tensor-007"][1] = 5
    dataset.commit("one cell")

    newest = open_on(store).log()[0]

    assert newest.summary() == "tensor-007 1 row"
    assert dataset.log()[0].summary() == "tensor-007 1 row"
