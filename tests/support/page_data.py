"""Small real data in the folder where a page of the documentation is followed.

photos/CLASS/NAME.jpg     19 pictures of COCO, by the class of the largest thing on them
coco/instances.json       their boxes; coco/images/ the pictures
mnist/*.gz                the 10,000 digits of MNIST's test set
pets-3/                   a small dataset that Deep Lake 3.9 wrote
examples/data/            all of it, as a checkout has it
"""

import json
import shutil
import zipfile
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"


def lay_out_data(folder: Path) -> None:
    (folder / "examples").mkdir()
    (folder / "examples" / "data").symlink_to(DATA)
    shutil.copytree(DATA / "mnist", folder / "mnist")
    with zipfile.ZipFile(Path(__file__).parent / "deeplake_3_9.zip") as archive:
        archive.extractall(folder / "pets-3")
    shutil.copytree(DATA / "coco", folder / "coco")
    listing = json.loads((DATA / "coco" / "instances.json").read_text(encoding="utf-8"))
    names = {category["id"]: category["name"] for category in listing["categories"]}
    largest: dict[int, dict[str, float]] = {}
    for annotation in listing["annotations"]:
        best = largest.get(annotation["image_id"])
        if best is None or annotation["area"] > best["area"]:
            largest[annotation["image_id"]] = annotation
    for image in listing["images"]:
        category = names[int(largest[image["id"]]["category_id"])]
        target = folder / "photos" / category / image["file_name"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DATA / "coco" / "images" / image["file_name"], target)
