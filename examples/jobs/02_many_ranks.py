"""One epoch on two ranks, stopped, and finished on three: no row is lost or repeated.

Under ``torchrun`` a loader gets rank and world size from torch.distributed, and you do not pass
them; here they are given, so that one process can simulate all ranks.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import tensorlake as tl
from tensorlake.loader import Loader

MNIST = Path(__file__).resolve().parents[1] / "data" / "mnist"
GLOBAL_BATCH = 300

with tl.ingest.idx(
    MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz", "memory://job2/digits"
) as made:
    made.tag("v1")
ds = tl.open("memory://job2/digits", "v1")  # a tag does not move: every rank sees the same rows


def stream(rank: int, world_size: int) -> Loader:
    """Make the loader of one rank; only the place in the job differs."""
    return ds.torch(
        global_batch_size=GLOBAL_BATCH,
        columns=["image", "label", "_row"],
        shuffle=True,
        seed=3,
        rank=rank,
        world_size=world_size,
    )


def rows_of(loader: Loader, batches: int | None = None) -> Iterator[int]:
    for number, batch in enumerate(loader, start=1):
        yield from batch["_row"].tolist()
        if number == batches:
            return


# Ten steps on two ranks of 150 rows each; any rank's state is the state of all.
pair = [stream(rank, 2) for rank in range(2)]
before = [row for loader in pair for row in rows_of(loader, batches=10)]
states = [loader.state_dict() for loader in pair]
assert states[0] == states[1]
print(f"stopped after {len(before):,} rows; the state is {len(json.dumps(states[0]))} bytes")

# With another machine: the rest of the epoch on three ranks of 100 rows each.
trio = [stream(rank, 3) for rank in range(3)]
for loader in trio:
    loader.load_state_dict(states[0])
after = [row for loader in trio for row in rows_of(loader)]
assert sorted(before + after) == list(range(len(ds)))
print(f"went on with the other {len(after):,} of {len(ds):,}, on three ranks")
