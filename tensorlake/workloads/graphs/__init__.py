"""``tl.graphs``: a graph is a dataset whose rows are nodes.

    neighbors       the sources of the edges into a node, int64 (degree,): as ragged rows these are
                    the compressed sparse columns (CSC) of the adjacency matrix
    x, y, …         features, labels, masks: a row for each node
    edge_attr, …    features of edges, (degree, …), in the order of ``neighbors``

Each of several types of nodes is a dataset, with ``neighbors.source.relation`` for each type of
edges into it.

A node's id is the number of its row. Edges have the direction of PyTorch Geometric: messages flow
from ``edge_index[0]`` to ``edge_index[1]``.
"""

from tensorlake.workloads.graphs.convert import from_edges, from_pyg, to_pyg
from tensorlake.workloads.graphs.heterogeneous import from_hetero, to_hetero
from tensorlake.workloads.graphs.neighbors import HeteroSubgraph, NeighborLoader, Subgraph
from tensorlake.workloads.graphs.ogb import from_ogb
from tensorlake.workloads.graphs.partition import partition

__all__ = [
    "HeteroSubgraph",
    "NeighborLoader",
    "Subgraph",
    "from_edges",
    "from_hetero",
    "from_ogb",
    "from_pyg",
    "partition",
    "to_hetero",
    "to_pyg",
]
