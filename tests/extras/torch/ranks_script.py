"""Train in DDP as torchrun starts it, and write the rows that this rank saw, also in meshes."""

import json
import sys
from pathlib import Path

import torch

import tensorlake as tl

SHAPE = {"pp": 2, "dp_replicate": 1, "dp_shard": 2, "cp": 1, "tp": 1}  # as torchtitan names them


def rows_of_meshes(dataset):
    """The first batch by a DeviceMesh, its part of data, and its sizes."""
    whole = torch.distributed.init_device_mesh(
        "cpu", tuple(SHAPE.values()), mesh_dim_names=tuple(SHAPE)
    )
    found = []
    for mesh in (whole, whole["dp_replicate", "dp_shard"], whole["dp_shard"], SHAPE):
        loader = dataset.torch(global_batch_size=10, mesh=mesh, columns=["_row"])
        found.append(next(iter(loader))["_row"].tolist())
    return found


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with tl.open(url) as dataset:
        loader = dataset.torch(global_batch_size=10, shuffle=True, seed=2, columns=["x", "_row"])
        seen = []
        for batch in loader:
            optimizer.zero_grad()
            model(batch["x"]).square().mean().backward()
            optimizer.step()
            seen.append(batch["_row"].tolist())
        meshes = rows_of_meshes(dataset)
    rank = torch.distributed.get_rank()
    weight = model.module.weight.tolist()
    Path(folder, f"rank-{rank}.json").write_text(json.dumps([seen, weight, meshes]))
    torch.distributed.destroy_process_group()
