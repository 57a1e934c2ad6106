"""A dataset of squares in every form that torchvision and Albumentations move."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as PillowImage

import tensorlake as tl

HEIGHT, WIDTH, ROWS = 40, 56, 12
SCHEMA = {
    "image": tl.Image("png"),
    "mask": tl.BinaryMask(of="image"),
    "classes": tl.SegmentMask(["none", "square"], of="image"),
    "boxes": tl.BBox(of="image"),
    "label": tl.ClassLabel(["a", "b", "c"], per="boxes"),
    "objects": tl.InstanceMask(of="image", per="boxes"),
    "points": tl.Keypoints(["nose", "tail"], of="image", per="boxes"),
    "name": "str",
}


@pytest.fixture(scope="session")
def squares(tmp_path_factory):
    ds = tl.create(str(tmp_path_factory.mktemp("vision") / "squares.tl"), SCHEMA)
    for row in range(ROWS):
        corners = np.array([[2, 3, 12, 13], [20, 8, 32, 20], [40, 25, 54, 38]])
        corners[:, 2] += row % 2
        masks = np.zeros((3, HEIGHT, WIDTH), np.bool_)
        for mask, (x1, y1, x2, y2) in zip(masks, corners, strict=True):
            mask[y1:y2, x1:x2] = True
        pixels = np.repeat((masks.any(axis=0) * 200).astype(np.uint8)[..., None], 3, axis=2)
        file = io.BytesIO()
        PillowImage.fromarray(pixels).save(file, "PNG")
        centres = (corners[:, :2] + corners[:, 2:]) / 2
        points = np.stack([np.column_stack([centres, np.full(3, 2)]), np.zeros((3, 3))], axis=1)
        ds.append(
            {
                "image": file.getvalue(),
                "mask": masks.any(axis=0),
                "classes": masks.any(axis=0).astype(np.uint8),
                "boxes": corners,
                "label": [0, 1, 2],
                "objects": masks,
                "points": points,
                "name": f"row {row}",
            }
        )
    ds.commit("squares")
    return ds


def assert_agree(batch):
    """The annotations of each row show what its image shows."""
    none = [np.zeros((len(one), 1, 3)) for one in batch["boxes"]]
    points = [one[:, 0] for one in batch.get("points", none)]
    for row, image in enumerate(batch["image"]):
        shown = np.asarray(image)[..., 0] > 100
        assert (shown == np.asarray(batch["mask"][row])).all()
        assert (shown == (np.asarray(batch["classes"][row]) == 1)).all()
        objects, boxes = batch["objects"][row], batch["boxes"][row]
        assert len(boxes) == len(batch["label"][row]) == len(objects)
        for box, one in zip(boxes, objects, strict=True):
            ys, xs = np.nonzero(one)
            assert np.allclose(box, [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], atol=1e-3)
        for (x, y, visible), one in zip(points[row], objects, strict=True):
            if visible:
                assert one[min(int(y), len(one) - 1), min(int(x), one.shape[1] - 1)]


def rows_of(batches):
    return {
        name: image
        for batch in batches
        for name, image in zip(batch["name"], np.asarray(batch["image"]), strict=True)
    }


def assert_reproducible(ds, transform, **arguments):
    """Equal rows for any number of threads and any batch size, after a resume, and in processes."""
    arguments = {"transform": transform, "shuffle": True, "seed": 3, **arguments}
    whole = rows_of(ds.loader(batch_size=12, **arguments))
    assert len({image.tobytes() for image in whole.values()}) > 3
    for batch_size, workers in ((4, 1), (3, 4)):
        again = rows_of(ds.loader(batch_size=batch_size, workers=workers, **arguments))
        assert all((again[name] == image).all() for name, image in whole.items())
    loader = ds.loader(batch_size=4, **arguments)
    first = next(iter(loader))
    state = loader.state_dict()
    loader.close()
    resumed = ds.loader(batch_size=4, **arguments)
    resumed.load_state_dict(state)
    rest = rows_of([first, *resumed])
    assert all((rest[name] == image).all() for name, image in whole.items())
    in_processes = ds.loader(batch_size=6, engine="processes", workers=2, **arguments)
    found = rows_of(in_processes)
    assert all((found[name] == image).all() for name, image in whole.items())
