"""PyTorch Geometric and METIS: graphs there and back, its batches, its accuracy on Cora, parts."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

CORA = Path(__file__).resolve().parents[4] / "shared" / "data" / "graph_cora"


def random_graph(nodes=30, edges=120):
    generator = torch.Generator().manual_seed(1)
    return geometric.data.Data(
        x=torch.rand(nodes, 4, generator=generator),
        edge_index=torch.randint(nodes, (2, edges), generator=generator),
        edge_attr=torch.rand(edges, 2, generator=generator),
        y=torch.randint(3, (nodes,), generator=generator),
        train_mask=torch.rand(nodes, generator=generator) < 0.5,
    )


def test_a_graph_comes_back_as_it_was_with_edges_by_target():
    data = random_graph()
    with tl.graphs.from_pyg(data, "memory://pyg") as ds:
        again = tl.graphs.to_pyg(ds)

        order = torch.argsort(data.edge_index[1], stable=True)
        assert again.edge_index.equal(data.edge_index[:, order])
        assert again.edge_attr.equal(data.edge_attr[order])
        for name in ("x", "y", "train_mask"):
            assert again[name].equal(data[name]), name
        assert again.num_nodes == 30
        assert tl.graphs.to_pyg(ds.where("y < 0 OR y >= 0")[["neighbors"]]).num_edges == 120
        again.validate()


def test_values_of_graphs_and_of_several_types_are_refused():
    data = random_graph()
    data.title = "a graph"
    with pytest.raises(tl.UnsupportedFeatureError, match="del data"):
        tl.graphs.from_pyg(data, "memory://pyg-refused")
    with pytest.raises(tl.UnsupportedFeatureError, match="HeteroData"):
        tl.graphs.from_pyg(geometric.data.HeteroData(), "memory://pyg-refused")
    assert not tl.exists("memory://pyg-refused")


def test_all_neighbors_of_one_seed_are_the_subgraph_of_geometric():
    data = random_graph()
    with tl.graphs.from_pyg(data, "memory://pyg-hops") as ds:
        for batch in tl.graphs.NeighborLoader(ds, [5, 9], fanouts=[-1, -1], batch_size=1):
            nodes, _, _, _ = geometric.utils.k_hop_subgraph(batch.n_id[:1], 2, data.edge_index)
            assert set(batch.n_id.tolist()) == set(nodes.tolist())
            layer = geometric.nn.SAGEConv(4, 3)
            whole, part = layer(data.x, data.edge_index), layer(batch.x, batch.edge_index)
            assert torch.allclose(whole[batch.n_id[0]], part[0], atol=1e-6)
            assert batch.to("cpu").x.equal(batch.x)


@pytest.fixture(scope="module")
def cora(tmp_path_factory):
    """Cora with Planetoid's split, of its original files."""
    pytest.importorskip("scipy")
    if not CORA.exists():
        pytest.skip("the files of Cora are not here")

    def part(name):
        return pickle.loads((CORA / f"ind.cora.{name}").read_bytes(), encoding="latin1")

    order = np.loadtxt(CORA / "ind.cora.test.index", dtype=np.int64)
    x = np.vstack([part("allx").toarray(), part("tx").toarray()]).astype("float32")
    y = np.vstack([part("ally"), part("ty")]).argmax(axis=1)
    x[order], y[order] = x[np.sort(order)].copy(), y[np.sort(order)].copy()
    x /= np.maximum(x.sum(axis=1, keepdims=True), 1)
    lists = part("graph")
    pairs = {(a, b) for a, others in lists.items() for b in others if a != b}
    edges = np.array(sorted(pairs | {(b, a) for a, b in pairs})).T
    split = np.full(len(x), "rest", dtype=object)
    split[:140], split[140:640], split[order] = "train", "val", "test"
    with tl.graphs.from_edges(
        edges, str(tmp_path_factory.mktemp("cora") / "cora.tl"), x=x, y=y, split=list(split)
    ) as ds:
        yield ds
        ds.discard()


class Sage(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = geometric.nn.SAGEConv(1433, 64)
        self.two = geometric.nn.SAGEConv(64, 7)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(x, 0.5, training=self.training)
        x = self.one(x, edge_index).relu()
        x = torch.nn.functional.dropout(x, 0.5, training=self.training)
        return self.two(x, edge_index)


def trained(batches, epochs):
    network = Sage()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        for x, edge_index, y, count in batches():
            optimizer.zero_grad()
            out = (
                network(x, edge_index)[:count]
                if isinstance(count, int)
                else network(x, edge_index)[count]
            )
            torch.nn.functional.cross_entropy(out, y).backward()
            optimizer.step()
    return network.eval()


def test_graphsage_on_cora_is_as_accurate_as_on_the_whole_graph(cora):
    data = tl.graphs.to_pyg(cora[["neighbors", "x", "y"]])
    test = torch.from_numpy(cora.where("split = 'test'").rows)
    train = torch.from_numpy(cora.where("split = 'train'").rows)
    assert (data.num_nodes, data.num_edges, len(test)) == (2708, 10556, 1000)

    def sampled(seed):
        loader = tl.graphs.NeighborLoader(
            cora, cora.where("split = 'train'"), [15, 10], batch_size=140, shuffle=True, seed=seed
        )

        def batches():
            for one in loader:
                yield one.x, one.edge_index, one.y[: one.batch_size], one.batch_size

        return batches

    def accuracy(network):
        with torch.no_grad():
            best = network(data.x, data.edge_index).argmax(dim=1)
        return float((best[test] == data.y[test]).float().mean())

    def whole():
        yield data.x, data.edge_index, data.y[train], train

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them wait for each other where the cores are shared
    found = {"whole": [], "sampled": []}
    for seed in range(2):
        torch.manual_seed(seed)
        found["whole"].append(accuracy(trained(whole, 40)))
        torch.manual_seed(seed)
        found["sampled"].append(accuracy(trained(sampled(seed), 40)))

    torch.set_num_threads(threads)

    assert np.mean(found["whole"]) > 0.77, found
    # a point, and twice what the mean of two seeds varies by, 0.7 points
    assert np.mean(found["sampled"]) > np.mean(found["whole"]) - 0.024, found


def test_parts_of_cora_have_few_edges_between_them(cora):
    pytest.importorskip("pymetis")
    edges = tl.graphs.to_pyg(cora[["neighbors"]]).edge_index.numpy()

    cut = tl.graphs.partition(cora, 4)

    part = cora["part"][:]
    sizes = np.bincount(part, minlength=4)
    assert sizes.min() > 0.9 * len(cora) / 4
    assert cut == np.count_nonzero(part[edges[0]] != part[edges[1]])
    # by hashing three of four edges lead to another part
    assert cut < 0.75 * edges.shape[1] / 2
    assert tl.graphs.partition(cora, 1) == 0
    assert set(cora["part"][:]) == {0}


def test_parts_of_odd_graphs(tmp_path):
    pytest.importorskip("pymetis")
    ends = [[0, 0, 1, 1, 3], [0, 1, 0, 0, 3]]  # edges to itself, repeats, an isolated node
    with tl.graphs.from_edges(ends, str(tmp_path / "odd.tl"), num_nodes=4) as ds:
        tl.graphs.partition(ds, 2)
        assert ds["part"].dtype == np.int32
        with pytest.raises(tl.InvalidInputError, match="fewer than parts=5"):
            tl.graphs.partition(ds, 5)
        with pytest.raises(tl.InvalidInputError, match="read only"):
            tl.graphs.partition(ds[["neighbors"]], 2)  # pyright: ignore[reportArgumentType] - on purpose
        ds.discard()
    with (
        tl.graphs.from_edges(ends, str(tmp_path / "t.tl"), part=[1.5] * 4) as ds,
        pytest.raises(tl.SchemaError, match="rename_tensor"),
    ):
        tl.graphs.partition(ds, 2)


def test_hetero_data_comes_back_as_it_was_and_its_batches_train(tmp_path):
    from torch_geometric import transforms
    from torch_geometric.nn import HeteroConv, SAGEConv

    random = np.random.default_rng(5)
    data = geometric.data.HeteroData()
    data["author"].x = torch.randn(40, 6)
    data["paper"].x = torch.randn(60, 8)
    data["paper"].y = torch.from_numpy(random.integers(0, 3, 60))
    written = np.stack([random.integers(0, 40, 200), random.integers(0, 60, 200)])
    data["author", "writes", "paper"].edge_index = torch.from_numpy(written)
    data["author", "writes", "paper"].edge_attr = torch.randn(200, 2)
    data = transforms.ToUndirected()(data)

    graph = tl.graphs.from_hetero(data, str(tmp_path / "hetero"))
    again = tl.graphs.to_hetero(graph)

    assert again.node_types == data.node_types
    assert set(again.edge_types) == set(data.edge_types)
    for name in data.node_types:
        assert torch.equal(again[name].x, data[name].x)
    for kind in data.edge_types:
        order = np.argsort(data[kind].edge_index[1].numpy(), kind="stable")
        assert torch.equal(again[kind].edge_index, data[kind].edge_index[:, order])
        assert torch.equal(again[kind].edge_attr, data[kind].edge_attr[order])
    layer = HeteroConv({kind: SAGEConv((-1, -1), 3) for kind in data.edge_types})
    loader = tl.graphs.NeighborLoader(graph, ("paper", np.arange(60)), [4], batch_size=20)
    for batch in loader:
        out = layer(batch.x_dict, batch.edge_index_dict)["paper"][: batch.batch_size]
        torch.nn.functional.cross_entropy(out, batch.y_dict["paper"][: batch.batch_size]).backward()
        assert out.shape == (20, 3)
