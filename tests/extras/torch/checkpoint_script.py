"""Train in DDP; save model, optimizer and loader by torch.distributed.checkpoint."""

import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

import tensorlake as tl
from tests.extras.killed import EPOCHS, EVERY, READ, Steps


class App(Stateful):
    """What the tutorial of torch saves."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]
        parts = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
        set_state_dict(self.model, self.optimizer, **parts)


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    app = App(model, torch.optim.AdamW(model.parameters(), 0.01))
    loader = tl.open(url).torch(**READ)
    states = {"app": app, "loader": loader}
    saved = sorted(Path(folder).glob("step-*"))
    if saved:
        dcp.load(states, checkpoint_id=saved[-1])
    steps = Steps(folder, torch.distributed.get_rank())
    for _ in range(loader.epoch, EPOCHS):
        for batch in loader:
            app.optimizer.zero_grad()
            model(batch["x"]).square().mean().backward()
            app.optimizer.step()
            app.step += 1
            if app.step % EVERY == 0:
                dcp.save(states, checkpoint_id=f"{folder}/step-{app.step:04}")
            steps.note(batch["_row"].tolist())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
