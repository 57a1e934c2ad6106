"""Train from torchdata: its StatefulDataLoader, or a chain of its nodes; states in a file."""

import sys
from pathlib import Path

import torch
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader

import tensorlake as tl
from tests.extras.killed import EPOCHS, EVERY, READ, Steps

if __name__ == "__main__":
    url, folder, kind = sys.argv[1:]
    loader = tl.open(url).torch(**READ)
    if kind == "nodes":
        batches = nodes.Loader(nodes.Prefetcher(nodes.IterableWrapper(loader), prefetch_factor=2))
    else:
        workers = int(kind)
        context = "fork" if workers else None
        batches = StatefulDataLoader(
            loader, batch_size=None, num_workers=workers, multiprocessing_context=context
        )
    file, epoch, step = Path(folder, "last.pt"), 0, 0
    if file.exists():
        checkpoint = torch.load(file, weights_only=False)
        epoch, step = checkpoint["epoch"], checkpoint["step"]
        batches.load_state_dict(checkpoint["data"])
    steps = Steps(folder)
    for now in range(epoch, EPOCHS):
        for batch in batches:
            step += 1
            if step % EVERY == 0:
                torch.save({"data": batches.state_dict(), "epoch": now, "step": step}, file)
            steps.note(batch["_row"].tolist())
