"""Detection on COCO: images of any size with any number of boxes, transformed together.

``Letterbox`` and ``Flip`` are applied to an image and to the boxes declared ``of`` it; a box that
leaves the image is dropped with its label.
"""

from pathlib import Path

import torch

import tensorlake as tl

COCO = Path(__file__).resolve().parents[1] / "data" / "coco"

# 1. Boxes, labels per box, crowds and masks become tensors of one dataset.
ds = tl.ingest.coco(COCO / "instances.json", COCO / "images", "memory://job3/coco")
print(ds)

# 2. Images with at least one box, and without crowds. This reads no pixels.
view = ds.query("WHERE LENGTH(boxes) > 0 AND NOT ANY(iscrowd)")
print(f"{len(view)} of {len(ds)} images have boxes and no crowd")

# 3. Images are stacked; boxes and labels are lists with one array per image.
train = view.torch(
    batch_size=4,
    shuffle=True,
    seed=1,
    columns=["image", "boxes", "label", "_row"],
    decode={"image": [tl.decode.Letterbox(320, 320), tl.decode.Flip()]},
    collate={"boxes": "list", "label": "list"},
    layout="NCHW",
)
names = ds["label"].names
for batch in train:
    targets = [
        {"boxes": boxes, "labels": labels}
        for boxes, labels in zip(batch["boxes"], batch["label"], strict=True)
    ]
    assert batch["image"].shape[1:] == (3, 320, 320)
    for target in targets:  # as torchvision's and DETR's detectors take them
        assert len(target["boxes"]) == len(target["labels"])
        assert bool((target["boxes"][:, 2:] > target["boxes"][:, :2]).all())
        assert bool((target["boxes"] >= 0).all())
        assert bool((target["boxes"] <= 320).all())

largest = max(targets, key=lambda target: len(target["boxes"]))
counted = torch.bincount(largest["labels"], minlength=len(names))
listed = ", ".join(f"{int(n)} {names[code]}" for code, n in enumerate(counted) if n)
print(f"the image with the most boxes in the last batch: {listed}")
