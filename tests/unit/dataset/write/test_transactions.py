"""Publishing and forgetting what is staged: transactions, discards, views of it, differences."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, rows_of

SCHEMA = {"x": "int64", "boxes": tl.Array("float32", shape=(None, 2)), "text": "str"}


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"x": n, "boxes": [[float(n), 1.0]] * (n % 2), "text": str(n)} for n in numbers]


def given(*numbers: int) -> list[dict[str, object]]:
    return [
        {**row, "boxes": np.array(row["boxes"], np.float32).reshape(-1, 2)}
        for row in rows(*numbers)
    ]


@pytest.fixture
def dataset() -> Dataset:
    dataset = create_on(MemoryStore(), SCHEMA)
    dataset.extend(given(*range(6)))
    dataset.commit()
    return dataset


def test_a_transaction_commits_on_success_and_discards_on_an_exception(dataset):
    with dataset.transaction("good"):
        dataset["x"][0] = 10

    def fail() -> None:
        with dataset.transaction("bad"):
            dataset["x"][1] = 11
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert dataset["x"][:2].tolist() == [10, 1]
    assert dataset.log()[0].message == "good"
    assert not dataset.has_changes


def test_rows_staged_one_by_one_and_read_between_are_settled_when_they_are_published():
    """format.md 48: what a transaction keeps in its tails is not what an entry has room for."""
    dataset = create_on(MemoryStore(), SCHEMA)
    for row in given(*range(80)):
        dataset.append(row)
        assert dataset["x"][-1] == row["x"]  # a read makes chunks of what waits

    dataset.commit()

    roots = session_of(dataset).head.roots.values()
    assert max(len(root.tail) for root in roots) <= 64
    assert [root.rows for root in roots] == [80, 80, 80]
    assert dataset["x"][:].tolist() == list(range(80))
    dataset.append(given(80)[0])
    dataset.commit()
    assert dataset["x"][:].tolist() == list(range(81))


def test_a_transaction_refuses_a_handle_with_staged_changes(dataset):
    dataset["x"][0] = 10

    with pytest.raises(tl.UncommittedChangesError), dataset.transaction("nested"):
        pytest.fail("the body runs")

    assert dataset.has_changes


def test_discarding_forgets_everything_and_makes_views_of_it_stale(dataset):
    dataset.append(given(6)[0])
    dataset["x"][0] = 10
    view = dataset[:]

    dataset.discard()

    assert rows_of(dataset) == rows(*range(6))
    with pytest.raises(tl.StaleViewError):
        view["x"][:]


def test_views_of_staged_rows_read_on_after_the_commit(dataset):
    dataset.append(given(6)[0])
    view = dataset[[6, 0]]

    dataset.commit()

    assert view["x"][:].tolist() == [6, 0]


def test_committing_nothing_returns_the_head(dataset):
    assert dataset.commit("nothing").version == "main@1"
    assert len(dataset.log()) == 2


def test_a_diff_names_rows_and_cells_by_identity(dataset):
    dataset.delete([0])
    dataset["x"][[0, 1]] = [10, 2]  # the second is the same value
    dataset.append(given(6)[0])

    diff = dataset.diff()

    assert diff.removed["x"][:].tolist() == [0]
    assert diff.added["x"][:].tolist() == [6]
    assert list(diff.updated) == ["x"]
    assert diff.updated["x"].before[:].tolist() == [1]
    assert diff.updated["x"].after[:].tolist() == [10]
    dataset.commit()
    assert not dataset.diff()
    assert repr(dataset.diff("main@1")).splitlines()[1:] == repr(diff).splitlines()[1:]
    assert len(dataset.diff("main@2", "main@1").added) == 1
