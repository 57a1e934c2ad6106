"""JAX on a sharded mesh: batches are global arrays, and the state is saved with the model's.

The same code runs on one host, whose devices form the mesh, and on many, where each process makes
its part of the global batch.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tensorlake as tl

MNIST = Path(__file__).resolve().parents[1] / "data" / "mnist"

ds = tl.ingest.idx(
    MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz", "memory://job5/digits"
)
mesh = Mesh(jax.devices(), ("data",))
train = ds[:9000].jax(
    global_batch_size=200,
    sharding=NamedSharding(mesh, PartitionSpec("data")),
    columns=["image", "label"],
    shuffle=True,
    drop_last=True,
)


def logits(weights: dict, images: jax.Array) -> jax.Array:
    flat = images.reshape(len(images), -1).astype(jnp.float32) / 255
    return flat @ weights["w"] + weights["b"]


@jax.jit
def train_step(weights: dict, images: jax.Array, labels: jax.Array) -> dict:
    def loss(weights: dict) -> jax.Array:
        chosen = jax.nn.log_softmax(logits(weights, images))
        return -jnp.take_along_axis(chosen, labels[:, None], axis=1).mean()

    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, jax.grad(loss)(weights))


weights = {"w": jnp.zeros((28 * 28, 10)), "b": jnp.zeros(10)}
for _ in range(3):
    for batch in train:  # jax.Array, laid out along the mesh
        weights = train_step(weights, batch["image"], batch["label"])
    data_state = train.state_dict()  # for Orbax: args.JsonSave(train.state_dict())
assert data_state["epoch"] == 3

held_out = ds[9000:]
guesses = logits(weights, jnp.asarray(held_out["image"][:])).argmax(1)
right = float((guesses == jnp.asarray(held_out["label"][:])).mean())
print(f"{right:.1%} of {len(held_out):,} digits, by a linear model, on {mesh.size} device(s)")
