"""Detection datasets that are edited and ingested again: the dataset is what the source is.

The model is a dictionary of images with their objects. It is written as COCO, YOLO and VOC, edited
at random (images and boxes added, removed, renamed, corrected; classes renamed and added) and
ingested by the same call again and again.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import tensorlake as tl

WIDTH, HEIGHT = 16, 8  # powers of two, so that YOLO's shares are exact
_clock = itertools.count(1_700_000_000)
_colours = itertools.count()


@dataclass
class Object:
    """A box of whole pixels, x, y, width and height, and its class."""

    number: int
    name: str
    box: tuple[int, int, int, int]


@dataclass
class Picture:
    """An image of the source."""

    number: int
    content: bytes
    objects: list[Object] = field(default_factory=list)
    licence: int = 1


@dataclass
class Model:
    """A source: images by file name, and classes by number."""

    images: dict[str, Picture] = field(default_factory=dict)
    classes: dict[int, str] = field(default_factory=lambda: {1: "cat", 7: "dog"})


def picture() -> bytes:
    """Encode an image of a colour that no other has."""
    colour = next(_colours)
    out = io.BytesIO()
    rgb = (colour % 251, colour // 251 % 251, 7)
    PIL.Image.new("RGB", (WIDTH, HEIGHT), rgb).save(out, "PNG")
    return out.getvalue()


def write(path: Path, content: bytes | str) -> None:
    """Write a file, unless it has this content; its time differs from that of all others."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (now := next(_clock), now))


def remove_others(folder: Path, names: set[str]) -> None:
    """Remove the files of a folder that have other names."""
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in names:
            path.unlink()


def coco_document(model: Model) -> dict[str, Any]:
    """Return the model as a COCO file."""
    numbers = {name: number for number, name in model.classes.items()}
    return {
        "info": {"classes": len(model.classes)},
        "images": [
            {"id": one.number, "file_name": name, "license": one.licence}
            for name, one in model.images.items()
        ],
        "categories": [{"id": number, "name": name} for number, name in model.classes.items()],
        "annotations": [
            {
                "id": thing.number,
                "image_id": one.number,
                "category_id": numbers[thing.name],
                "bbox": list(thing.box),
                "area": thing.box[2] * thing.box[3],
            }
            for one in model.images.values()
            for thing in one.objects
        ],
    }


def write_coco(folder: Path, model: Model) -> None:
    write(folder / "coco.json", json.dumps(coco_document(model)))


def ingest_coco(folder: Path, url: str, **options: Any) -> tl.Dataset:
    return tl.ingest.coco(folder / "coco.json", folder / "images", url, **options)


def write_yolo(folder: Path, model: Model) -> None:
    numbers = {name: number for number, name in model.classes.items()}
    content = {"names": dict(model.classes), "train": "images"}
    write(folder / "data.yaml", yaml.safe_dump(content))
    for name, one in model.images.items():
        lines = []
        for thing in one.objects:
            x, y, width, height = thing.box
            centre = ((x + width / 2) / WIDTH, (y + height / 2) / HEIGHT)
            numbered = [numbers[thing.name], *centre, width / WIDTH, height / HEIGHT]
            lines.append(" ".join(map(str, numbered)))
        write(folder / "labels" / name.replace(".png", ".txt"), "\n".join(lines))
    remove_others(folder / "labels", {name.replace(".png", ".txt") for name in model.images})


def ingest_yolo(folder: Path, url: str, **options: Any) -> tl.Dataset:
    return tl.ingest.yolo(folder / "data.yaml", url, task="detect", **options)


def write_voc(folder: Path, model: Model) -> None:
    for name, one in model.images.items():
        objects = [
            f"<object><name>{thing.name}</name><bndbox><xmin>{thing.box[0] + 1}</xmin>"
            f"<ymin>{thing.box[1] + 1}</ymin><xmax>{thing.box[0] + thing.box[2]}</xmax>"
            f"<ymax>{thing.box[1] + thing.box[3]}</ymax></bndbox></object>"
            for thing in one.objects
        ]
        text = f"<annotation><licence>{one.licence}</licence>{''.join(objects)}</annotation>"
        write(folder / "Annotations" / name.replace(".png", ".xml"), text)
    remove_others(folder / "Annotations", {name.replace(".png", ".xml") for name in model.images})


@dataclass(frozen=True)
class Format:
    """A format: where its images are, how it is written and ingested."""

    images: str
    write: Callable[[Path, Model], None]
    ingest: Callable[..., tl.Dataset]


FORMATS = {
    "coco": Format("images", write_coco, ingest_coco),
    "yolo": Format("images", write_yolo, ingest_yolo),
    "voc": Format("JPEGImages", write_voc, tl.ingest.voc),
}

PICKED = st.integers(0, 1 << 16)
BOXES = st.tuples(
    st.integers(0, WIDTH // 2), st.integers(0, HEIGHT // 2), st.integers(1, 8), st.integers(1, 4)
)


class Annotations(RuleBasedStateMachine):
    """Edits of a source, and calls that bring a dataset to it."""

    form: Format

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="annotations-"))
        self.url = f"memory://annotations-{self.folder.name}"
        self.model = Model()
        self.numbers = itertools.count(1)
        self.is_ingested = False

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def pick(self, at: int) -> tuple[str, Picture]:
        return list(self.model.images.items())[at % len(self.model.images)]

    def class_name(self, at: int) -> str:
        return list(self.model.classes.values())[at % len(self.model.classes)]

    @initialize(boxes=st.lists(BOXES, min_size=2, max_size=3))
    def begin(self, boxes: list[tuple[int, int, int, int]]) -> None:
        for box in boxes:
            self.add_image(box, 0)

    @rule(box=BOXES, of=PICKED)
    def add_image(self, box: tuple[int, int, int, int], of: int) -> None:
        number = next(self.numbers)
        thing = Object(next(self.numbers), self.class_name(of), box)
        self.model.images[f"i{number}.png"] = Picture(number, picture(), [thing])

    @precondition(lambda self: len(self.model.images) > 1)
    @rule(at=PICKED)
    def remove_image(self, at: int) -> None:
        del self.model.images[self.pick(at)[0]]

    @rule(at=PICKED)
    def rename_image(self, at: int) -> None:
        name, one = self.pick(at)
        del self.model.images[name]
        self.model.images[f"r{next(self.numbers)}.png"] = one

    @rule(at=PICKED)
    def replace_image(self, at: int) -> None:
        self.pick(at)[1].content = picture()

    @rule(at=PICKED)
    def correct_licence(self, at: int) -> None:
        self.pick(at)[1].licence += 1

    @rule(at=PICKED, of=PICKED)
    def correct_class(self, at: int, of: int) -> None:
        for thing in self.pick(at)[1].objects[:1]:
            thing.name = self.class_name(of)

    @rule(at=PICKED, box=BOXES)
    def correct_box(self, at: int, box: tuple[int, int, int, int]) -> None:
        for thing in self.pick(at)[1].objects[:1]:
            thing.box = box

    @rule(at=PICKED)
    def remove_box(self, at: int) -> None:
        del self.pick(at)[1].objects[:1]

    @rule(at=PICKED, box=BOXES, of=PICKED)
    def add_box(self, at: int, box: tuple[int, int, int, int], of: int) -> None:
        thing = Object(next(self.numbers), self.class_name(of), box)
        self.pick(at)[1].objects.append(thing)

    @rule()
    def add_class(self) -> None:
        number = next(self.numbers)
        self.model.classes[100 - number] = f"c{number}"  # before the others, so that codes move
        self.model.classes = dict(sorted(self.model.classes.items()))

    @precondition(lambda self: len(self.model.classes) < 6)
    @rule(of=PICKED)
    def rename_class(self, of: int) -> None:
        number = list(self.model.classes)[of % len(self.model.classes)]
        old, new = self.model.classes[number], f"n{next(self.numbers)}"
        self.model.classes[number] = new
        for one in self.model.images.values():
            for thing in one.objects:
                thing.name = new if thing.name == old else thing.name

    @rule()
    def ingest(self) -> None:
        form, folder = self.form, self.folder
        form.write(folder, self.model)
        for name, one in self.model.images.items():
            write(folder / form.images / name, one.content)
        remove_others(folder / form.images, set(self.model.images))
        with form.ingest(folder, self.url, delete=True) as ds:
            report = ds.ingest_report
            assert not report.conflicts, report.conflicts
            assert report.added + report.renamed + report.updated + report.unchanged == len(
                self.model.images
            )
            version = ds.version
        with form.ingest(folder, self.url, delete=True) as again:
            assert again.version == version
            assert again.ingest_report.unchanged == len(self.model.images)
        self.is_ingested = True
        self.ingested = {
            name: (one.content, [(thing.name, thing.box) for thing in one.objects], one.licence)
            for name, one in self.model.images.items()
        }
        self.document = coco_document(self.model)

    @precondition(lambda self: self.is_ingested)
    @invariant()
    def dataset_is_the_source(self) -> None:
        found = {}
        with tl.open(self.url) as ds:
            for at in range(len(ds)):
                row = ds[at]
                xyxy = np.asarray(row["boxes"]).reshape(-1, 4)
                boxes = np.concatenate((xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]), axis=1)
                things = [
                    (name, tuple(box))
                    for name, box in zip(row["label"].as_names(), boxes.tolist(), strict=True)
                ]
                name = row["file_name"].rpartition("/")[2]
                found[name] = ds["image"].bytes(at), things, self.licence_of(row, name)
        assert found == self.ingested

    def licence_of(self, row: tl.Row, name: str) -> int:
        if self.form is FORMATS["coco"]:
            return row["coco"]["image"]["license"]
        return int(row["voc"]["licence"]) if "voc" in row else self.ingested[name][2]

    @precondition(lambda self: self.is_ingested and self.form is FORMATS["coco"])
    @rule()
    def export(self) -> None:
        out = self.folder / "out"
        with tl.open(self.url) as ds:
            ds.to_coco(out, overwrite=True)
        written = json.loads((out / "annotations.json").read_text())
        for member in ("images", "annotations"):
            written[member].sort(key=lambda one: one["id"])
            for one in written[member]:
                one.pop("width", None)
                one.pop("height", None)
        wanted = {
            **self.document,
            **{
                member: sorted(self.document[member], key=lambda one: one["id"])
                for member in ("images", "annotations")
            },
        }
        unused = {one["id"] for one in written["categories"]} - {
            one["id"] for one in wanted["categories"]
        }
        written["categories"] = [one for one in written["categories"] if one["id"] not in unused]
        assert written == wanted


def check(form: str, *, examples: int, steps: int) -> None:
    kind = type(f"Annotations_{form}", (Annotations,), {"form": FORMATS[form]})
    run_state_machine_as_test(
        kind, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_dataset_follows_its_annotations(form):
    check(form, examples=6, steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_dataset_follows_its_annotations_for_long(form):
    check(form, examples=60, steps=40)
