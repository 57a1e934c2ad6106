"""Job 5, "JAX/Flax on a sharded mesh", line by line; the network is a sum and every step is saved.

Killed after some steps and started again, it restores from Orbax what it saved there.
"""

import sys

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import tensorlake as tl
from tests.extras.killed import BATCH, EPOCHS, EVERY, Steps

url, folder = sys.argv[1:]
ds = tl.open(url)
steps = Steps(folder)
mngr = ocp.CheckpointManager(
    f"{folder}/checkpoints", options=ocp.CheckpointManagerOptions(save_interval_steps=EVERY)
)
mesh = jax.make_mesh((4, 2), ("data", "model"))
sh = NamedSharding(mesh, P("data"))
state, ckpt = jax.device_put({"w": jnp.zeros(3)}, NamedSharding(mesh, P())), None
if (step := mngr.latest_step() or 0) > 0:
    ckpt = mngr.restore(
        step,
        args=ocp.args.Composite(state=ocp.args.StandardRestore(state), data=ocp.args.JsonRestore()),
    )
    state = ckpt["state"]


@jax.jit
def train_step(state, batch):
    return {"w": state["w"] + batch["x"].sum(0)}, batch["x"].mean()


mesh = jax.make_mesh((4, 2), ("data", "model"))
sh = NamedSharding(mesh, P("data"))
train = ds.jax(
    global_batch_size=BATCH,
    sharding=sh,
    columns=["x", "_row"],
    shuffle=True,
    seed=5,
    drop_last=True,
)
train.load_state_dict(ckpt["data"]) if ckpt else None
for _ in range(train.epoch, EPOCHS):
    for batch in train:  # dict of global jax.Array
        rows = batch.pop("_row")
        state, metrics = train_step(state, batch)
        step += 1
        mngr.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), data=ocp.args.JsonSave(train.state_dict())
            ),
        )
        mngr.wait_until_finished()
        steps.note(rows.tolist())
