"""Many workers append pairs of image and caption, some of them twice; training reads a view.

Each shard is one commit with a key: a worker that was killed, or restarted by mistake, commits
the same key and publishes nothing. Writers of different rows never conflict.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import tensorlake as tl

COCO = Path(__file__).resolve().parents[1] / "data" / "coco"
URL = "memory://job6/pairs"
SHARDS = 4

listing = json.loads((COCO / "instances.json").read_text(encoding="utf-8"))
names = {one["id"]: one["name"] for one in listing["categories"]}
things: dict[int, list[str]] = {}
for one in listing["annotations"]:
    things.setdefault(one["image_id"], []).append(names[one["category_id"]])

tl.create(URL, {"image": tl.Image("jpeg"), "caption": tl.Text(), "score": "float32"}).close()


def work(shard: int) -> None:
    mine = listing["images"][shard::SHARDS]
    with tl.open(URL) as ds:
        ds.extend(
            {
                "image": [COCO / "images" / one["file_name"] for one in mine],  # stored unchanged
                "caption": [f"a photo of {', '.join(things[one['id']])}" for one in mine],
                "score": np.array([0.1 * len(things[one["id"]]) for one in mine], np.float32),
            }
        )
        ds.commit(f"shard {shard}", key=f"2026-01-31/{shard}")


with ThreadPoolExecutor(SHARDS) as pool:
    list(pool.map(work, [*range(SHARDS), 0, 2]))  # two of them run twice
ds = tl.open(URL)
assert len(ds) == len(listing["images"])
print(f"{len(ds)} pairs in {len(ds.log()) - 1} commits, from {SHARDS + 2} runs of {SHARDS} workers")

# Save the good pairs as a view: a name that everyone can open, unaffected by later appends.
ds.query("WHERE score > 0.28 AND SHAPE(image)[0] >= 256").save("clip-v1")
good = tl.open(URL).views["clip-v1"]
loader = good.torch(
    batch_size=4,
    shuffle=True,
    columns=["image", "caption"],
    decode={"image": tl.decode.RandomResizedCrop(224, 224)},
)
for batch in loader:
    assert batch["image"].shape[1:] == (224, 224, 3)
print(f"{good!r}\n{batch['caption'][0]}")
