"""Train in DDP as torchrun starts it, and write the rows that this rank saw."""

import json
import sys
from pathlib import Path

import torch

import tensorlake as tl

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
    rank = torch.distributed.get_rank()
    weight = model.module.weight.tolist()
    Path(folder, f"rank-{rank}.json").write_text(json.dumps([seen, weight]))
    torch.distributed.destroy_process_group()
