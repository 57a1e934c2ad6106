"""PyTorch Geometric: graphs of any size are ragged rows, and become its batches."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

SCHEMA = {
    "x": tl.Array("float32", (None, 2)),
    "edge_index": tl.Array("int64", (2, None)),
    "y": "int64",
}
GRAPHS, BATCH = 12, 4


def graph(number):
    """A ring of three to eight nodes."""
    nodes = 3 + number % 6
    ring = np.arange(nodes)
    return {
        "x": np.random.default_rng(number).random((nodes, 2), dtype="float32"),
        "edge_index": np.stack([ring, (ring + 1) % nodes]),
        "y": number % 2,
    }


def data_of(row):
    return geometric.data.Data(
        x=torch.as_tensor(row["x"]),
        edge_index=torch.as_tensor(row["edge_index"]),
        y=torch.as_tensor(row["y"]),
    )


@pytest.fixture
def rings(tmp_path):
    with tl.create(str(tmp_path / "rings.tl"), SCHEMA) as dataset:
        for number in range(GRAPHS):
            dataset.append(graph(number))
        dataset.commit("rings")
        yield dataset


def joined(numbers):
    """Make the batch of these graphs without us."""
    return geometric.data.Batch.from_data_list([data_of(graph(number)) for number in numbers])


def test_a_loader_makes_the_batches_of_geometric(rings):
    loader = rings.torch(
        batch_size=BATCH,
        shuffle=True,
        seed=6,
        columns=["x", "edge_index", "y", "_row"],
        collate={"x": "list", "edge_index": "list"},
    )

    for batch in loader:
        rows = [
            {name: batch[name][place] for name in ("x", "edge_index", "y")}
            for place in range(len(batch["_row"]))
        ]
        found = geometric.data.Batch.from_data_list([data_of(row) for row in rows])
        expected = joined(batch["_row"].tolist())
        assert found.num_graphs == BATCH
        for name in ("x", "edge_index", "y", "batch", "ptr"):
            assert found[name].equal(expected[name]), name


def test_geometric_s_own_loader_reads_rows_and_a_network_runs(rings):
    graphs = [data_of(row) for row in rings.__getitems__(list(range(GRAPHS)))]
    layer = geometric.nn.GCNConv(2, 3)

    for number, batch in enumerate(geometric.loader.DataLoader(graphs, batch_size=BATCH)):
        expected = joined(range(BATCH * number, BATCH * number + BATCH))
        assert layer(batch.x, batch.edge_index).equal(layer(expected.x, expected.edge_index))
        assert geometric.nn.global_add_pool(batch.x, batch.batch).shape == (BATCH, 2)
