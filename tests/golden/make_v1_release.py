"""Write the golden datasets of release 0.1.0: ``python -m tests.golden.make_v1_release FOLDER``.

Run once, at commit 07946fb. Its bytes are in ``v1_release.tar.xz`` and are never made again; with
the argument ``lake`` after the folder, at commit a823e87, the first state of 0.1.0, it made those
in ``v1_first.tar.xz``. ``expected.json`` beside them says what each version holds. It is made from
the values that were written and from the calls made, without reading anything back: a plain list
of rows per branch follows the same steps. Loaders are recorded by ``make_v1_loaders.py``.

    lake       ├─ first rows ─ row 0 … 7 ─ changed ─┬─ schema ─ classes ─ ours ─ merge ─ …
               │                            (before)└─ side: theirs ─ more ─┘
    mirror     a mirror of lake; alone: its tag alone, without history
    expired    versions that were expired, and packs that were collected
    types      one row of every type, one of NULLs, one of empty values, another codec of images
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl
from tensorlake.format import Schema
from tensorlake.storage import open_store, runtime
from tensorlake.versions import create_dataset
from tests.golden.plain import digest, plain_class, plain_classes, plain_number
from tests.golden.release_images import pixels_of, png

FIRST_ROWS = 60
CHUNK_NBYTES = {"id": 64, "score": 32, "note": 256}  # many chunks, so that the index has pages
IS_LAKE_ALONE = "lake" in sys.argv[2:]
PER: dict[str, Any] = (
    {} if IS_LAKE_ALONE else {"per": "boxes"}
)  # the first state knew it of classes only

SCHEMA: dict[str, Any] = {
    "id": "int64",
    "label": tl.ClassLabel(["cat", "dog", "cow"]),
    "boxes": tl.BBox("xyxy", of="image"),
    "kinds": tl.ClassLabel(["car", "bus"], per="boxes"),
    "crowd": tl.Array("bool", (None,), **PER),
    "image": tl.Image("png"),
    "score": tl.Scalar("float32", nullable=True),
    "vector": tl.Embedding(4),
    "tokens": tl.Array("uint16", (None,)),
    "cube": tl.Array("uint8", (None, 2, None)),
    "count": "uint8",
    "note": tl.Text(nullable=True),
    "words": tl.Sequence("str"),
    "parts": tl.Sequence(tl.Struct({"name": "str", "size": "int16"})),
    "pose": tl.Struct({"score": "float32", "box": tl.Struct({"x": "int16"})}),
    "meta": tl.Json(nullable=True),
}


def row_of(number: int) -> dict[str, Any]:
    """Return row ``number`` as it is written."""
    boxes = number % 3
    return {
        "id": number,
        "label": ("cat", "dog")[number % 2],
        "boxes": [[one, one, one + 1, number + 2] for one in range(boxes)],
        "kinds": [("car", "bus")[(number + one) % 2] for one in range(boxes)],
        "crowd": [one == 1 for one in range(boxes)],
        "image": png(pixels_of(number % 5)),
        "score": None if number % 7 == 3 else number / 4,
        "vector": [number, -number, 0.5, 1.0],
        "tokens": list(range(number % 6)),
        "cube": np.arange(number % 3 * 2 * 2).reshape(number % 3, 2, 2).tolist()
        if number % 3
        else np.zeros((0, 2, 3), np.uint8),
        "count": number % 256,
        "note": (None, "", f"note größe {number}", "雪")[number % 4],
        "words": ["a" * one for one in range(number % 3)],
        "parts": [{"name": f"part {one}", "size": one - 1} for one in range(number % 3)],
        "pose": {"score": number / 2, "box": {"x": -number}},
        "meta": None if number % 5 == 0 else {"n": number, "deep": [1, {"a": None}]},
    }


FORMS: dict[str, Callable[[Any], Any]] = {
    "id": lambda it: plain_number(it, "int64"),
    "label": plain_class,
    "boxes": lambda it: plain_number(np.reshape(it, (-1, 4)), "float32"),
    "kinds": plain_classes,
    "crowd": lambda it: plain_number(it, "bool"),
    "score": lambda it: plain_number(it, "float32"),
    "vector": lambda it: plain_number(it, "float32"),
    "tokens": lambda it: plain_number(it, "uint16"),
    "cube": lambda it: plain_number(it, "uint8"),
    "count": lambda it: plain_number(it, "uint8"),
    "ratio": lambda it: plain_number(it, "int16"),
}


def expected_of(number: int) -> dict[str, Any]:
    """Return row ``number`` as it is to be read, by tensor."""
    row = row_of(number)
    sizes = [part["size"] for part in row["parts"]]
    pose = row.pop("pose")
    row["parts/name"] = [part["name"] for part in row.pop("parts")]
    row["parts/size"] = plain_number(np.array(sizes, "int16"))
    row["pose/score"] = plain_number(pose["score"], "float32")
    row["pose/box/x"] = plain_number(pose["box"]["x"], "int16")
    row["image"] = plain_number(pixels_of(number % 5))
    return {
        name: value if value is None or name not in FORMS else FORMS[name](value)
        for name, value in row.items()
    }


class Rows:
    """What a branch is to hold: rows with their identity, in their order."""

    def __init__(self, rows: list[tuple[int, dict[str, Any]]] | None = None) -> None:
        self.rows = rows if rows is not None else []

    def copy(self) -> Rows:
        return Rows(deepcopy(self.rows))

    def append(self, *numbers: int) -> None:
        self.rows += [(number, expected_of(number)) for number in numbers]

    def set(self, name: str, values: dict[int, Any]) -> None:
        for identity, row in self.rows:
            if identity in values:
                row[name] = values[identity]

    def delete(self, *numbers: int) -> None:
        self.rows = [one for one in self.rows if one[0] not in numbers]

    def place(self, number: int) -> int:
        return [identity for identity, _ in self.rows].index(number)


class Recorder:
    """Collects what versions hold; equal rows are written once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.numbers: dict[str, int] = {}
        self.versions: dict[str, dict[str, Any]] = {}
        self.log: dict[str, list[dict[str, Any]]] = {}

    def version(self, name: str, rows: Rows, message: str, parents: list[str], **more: Any) -> None:
        held: list[int] = []
        for _, row in rows.rows:
            text = json.dumps(row, sort_keys=True)
            if text not in self.numbers:
                self.numbers[text] = len(self.rows)
                self.rows.append(json.loads(text))
            held.append(self.numbers[text])
        self.versions[name] = {
            "message": message,
            "parents": parents,
            "identities": [identity for identity, _ in rows.rows],
            "rows": held,
            "digest": digest([row for _, row in rows.rows]),
            **more,
        }

    def between(self, first: str, second: str) -> dict[str, Any]:
        """Say how two versions differ: identities that came, went, and changed by tensor."""
        old, new = (
            dict(zip(one["identities"], one["rows"], strict=True))
            for one in (self.versions[first], self.versions[second])
        )
        updated: dict[str, list[int]] = {}
        for identity in old.keys() & new.keys():
            before, after = (_today(self.rows[one[identity]]) for one in (old, new))
            for name in before.keys() & after.keys():
                if before[name] != after[name]:
                    own = (
                        "note" if name == "remark" and "note" in self.rows[new[identity]] else name
                    )
                    updated.setdefault(own, []).append(identity)
        return {
            "from": first,
            "to": second,
            "added": sorted(new.keys() - old.keys()),
            "removed": sorted(old.keys() - new.keys()),
            "updated": {name: sorted(updated[name]) for name in sorted(updated)},
        }


def _today(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row under the names and types of the newest schema."""
    count = np.frombuffer(bytes.fromhex(row["count"]["hex"]), row["count"]["dtype"])[0]
    label = plain_class(row["label"]["class"].replace("dog", "hound"))
    remark = {"remark": row["note"]} if "note" in row else {}
    kept = {name: value for name, value in row.items() if name != "note"}
    return kept | remark | {"count": int(count), "label": label}


def created(url: str, schema: dict[str, Any]) -> tl.Dataset:
    """Make a dataset whose tensors have small chunks."""
    described = Schema.new(schema).to_json()
    for tensor in described["tensors"]:
        if tensor["name"] in CHUNK_NBYTES:
            tensor["chunk_nbytes"] = CHUNK_NBYTES[tensor["name"]]
    runtime.run(create_dataset(open_store(url), described, grace_s=86_400, exist_ok=False))
    return tl.open(url)


def lake(url: str) -> dict[str, Any]:
    ds, rows, recorder = created(url, SCHEMA), Rows(), Recorder()

    def committed(message: str, *, parents: list[str] | None = None, **more: Any) -> None:
        number = len(recorder.versions) + 1
        recorder.version(f"main@{number}", rows, message, parents or [f"main@{number - 1}"], **more)
        assert ds.version == f"main@{number}", ds.version

    ds.extend([row_of(number) for number in range(FIRST_ROWS)])
    ds.commit("first rows", key="golden-first")
    rows.append(*range(FIRST_ROWS))
    committed("first rows", keys=["golden-first"])
    for number in range(FIRST_ROWS, FIRST_ROWS + 8):
        ds.append(row_of(number))
        ds.commit(f"row {number}")
        rows.append(number)
        committed(f"row {number}")

    ds["score"][[rows.place(0), rows.place(3), rows.place(61)]] = [None, 1.5, -0.0]
    ds["label"][rows.place(5)] = "cat"
    ds["tokens"][rows.place(2)] = [65535, 0, 1, 2, 3, 4, 5, 6]
    ds["note"][ds["id"] == 12] = "assigned"
    ds.delete([rows.place(4), rows.place(62)])
    ds.commit("changed")
    rows.set("score", {0: None, 3: FORMS["score"](1.5), 61: FORMS["score"](-0.0)})
    rows.set("label", {5: plain_class("cat")})
    rows.set("tokens", {2: FORMS["tokens"]([65535, 0, 1, 2, 3, 4, 5, 6])})
    rows.set("note", {12: "assigned"})
    rows.delete(4, 62)
    committed("changed")
    ds.tag("before")
    order = np.random.Generator(np.random.Philox(7)).permutation(len(rows.rows))[:20]
    ds[order].save("by-hand", "rows chosen by hand")
    ds.query("SELECT id, score * 2 AS twice WHERE score >= $low ORDER BY score DESC", low=14).save(
        "best"
    )
    scores = {number: struct.unpack("<f", bytes.fromhex(row["score"]["hex"]))[0]
              for number, row in rows.rows if row["score"] is not None}  # fmt: skip
    best = sorted(
        (one for one in scores if scores[one] >= 14), key=scores.__getitem__, reverse=True
    )
    views = {
        "by-hand": {"identities": [rows.rows[place][0] for place in order.tolist()]},
        "best": {"identities": best, "twice": [scores[one] * 2 for one in best]},
    }

    side, beside = ds.branch("side/größe"), rows.copy()
    recorder_side = Recorder()
    recorder_side.rows, recorder_side.numbers = recorder.rows, recorder.numbers
    side["score"][[beside.place(1), beside.place(20)]] = [100.0, 200.0]
    side["label"].add_names(["owl"])
    side["label"][beside.place(7)] = "owl"
    side.delete([beside.place(30)])
    side.append(row_of(1000) | {"label": "owl"})
    side.commit("theirs")
    beside.set("score", {1: FORMS["score"](100), 20: FORMS["score"](200)})
    beside.set("label", {7: plain_class("owl")})
    beside.delete(30)
    beside.append(1000)
    beside.set("label", {1000: plain_class("owl")})
    recorder_side.version("side/größe@2", beside, "theirs", ["side/größe@1"])
    side.upsert([row_of(1001), row_of(7) | {"label": "owl", "note": "upserted"}], on="id")
    side.commit("more")
    beside.set("note", {7: "upserted"})
    beside.append(1001)
    recorder_side.version("side/größe@3", beside, "more", ["side/größe@2"])

    with ds.transaction("another schema"):
        ds.add_tensor("ratio", tl.Scalar("int16"), fill=7)
        ds["ratio"][rows.place(10)] = -1
        ds.rename_tensor("note", "remark")
        ds.alter_tensor("count", dtype="int32", metadata={"unit": "animals"})
        ds["count"][rows.place(11)] = 70_000
    for number, row in rows.rows:
        row["ratio"] = FORMS["ratio"](-1 if number == 10 else 7)
        row["remark"] = row.pop("note")
        row["count"] = plain_number(70_000 if number == 11 else number % 256, "int32")
    committed("another schema")
    with ds.transaction("other classes"):
        ds["label"].add_names(["hen"])
        ds["label"].rename("dog", "hound")
        ds["label"][rows.place(9)] = "hen"
    for number, row in rows.rows:
        row["label"] = plain_class(
            "hen" if number == 9 else row["label"]["class"].replace("dog", "hound")
        )
    committed("other classes")
    with ds.transaction("ours"):
        ds["score"][[rows.place(1), rows.place(21)]] = [-100.0, -200.0]
        ds.execute("UPDATE this SET count = count + 1 WHERE id < 3")
        ds.execute("DELETE FROM this WHERE id = 40")
    rows.set("score", {1: FORMS["score"](-100), 21: FORMS["score"](-200)})
    for number, row in rows.rows:
        if number < 3:
            row["count"] = plain_number(number + 1, "int32")
    rows.delete(40)
    committed("ours")
    ds.merge("side/größe", on_conflict="theirs")
    rows.set("score", {1: FORMS["score"](100), 20: FORMS["score"](200)})
    rows.set("label", {7: plain_class("owl")})
    rows.set("remark", {7: "upserted"})
    rows.delete(30)
    for number in (1000, 1001):
        row = evolved(number)
        row["label"] = plain_class("owl" if number == 1000 else "hound")
        rows.rows.append((number, row))
    committed("merge side/größe@3", parents=["main@13", "side/größe@3"])
    ds.revert("main@10")
    ds.commit("revert a commit")
    before = recorder.versions["main@9"]
    then = dict(zip(before["identities"], before["rows"], strict=True))
    for number, row in rows.rows:
        if number in {0, 3, 61}:
            row["score"] = recorder.rows[then[number]]["score"]
        if number == 5:
            row["label"] = plain_class("hound")
        if number == 2:
            row["tokens"] = recorder.rows[then[number]]["tokens"]
        if number == 12:
            row["remark"] = recorder.rows[then[number]]["note"]
    for number in (4, 62):
        rows.rows.append((number, evolved(number)))
    committed("revert a commit")
    with ds.transaction("dropped"):
        ds.drop_tensor("words")
        ds["label"].drop_names(["cow"])
    for _, row in rows.rows:
        del row["words"]
    committed("dropped")
    ds.optimize()
    committed("optimize")
    late = row_of(2000) | {"label": "hound", "remark": "late", "ratio": 1}
    ds.append({name: value for name, value in late.items() if name not in {"note", "words"}})
    ds.commit("a late row")
    row = evolved(2000)
    del row["words"]
    row |= {"remark": "late", "ratio": FORMS["ratio"](1), "label": plain_class("hound")}
    rows.rows.append((2000, row))
    committed("a late row")
    ds.branch("gone", at="before")
    ds.delete_branch("gone")
    return {
        "rows": recorder.rows,
        "versions": recorder.versions | recorder_side.versions,
        "tags": {"before": "main@10"},
        "views": views,
        "differences": [
            recorder.between(*pair)
            for pair in (
                ("main@1", "main@2"),
                ("main@9", "main@10"),
                ("main@13", "main@14"),
                ("main@14", "main@17"),
                ("main@10", "main@18"),
            )
        ],
        "names": {
            "main": ["cat", "hound", "", "hen", "owl"],
            "side/größe": ["cat", "dog", "cow", "owl"],
        },
        "queries": queries(rows),
    }


def evolved(number: int) -> dict[str, Any]:
    """Return row ``number`` as main's later schema shows it."""
    row = expected_of(number)
    row["remark"] = row.pop("note")
    row["ratio"] = FORMS["ratio"](7)
    row["count"] = plain_number(number % 256, "int32")
    row["label"] = plain_class({"cat": "cat", "dog": "hound"}[row_of(number)["label"]])
    return row


def queries(rows: Rows) -> dict[str, list[int]]:
    """Return what queries find, counted from the rows in plain Python."""

    def chosen(holds: Callable[[dict[str, Any]], bool]) -> list[int]:
        return [place for place, (_, row) in enumerate(rows.rows) if holds(row)]

    def number(row: dict[str, Any], name: str) -> Any:
        it = row[name]
        return None if it is None else np.frombuffer(bytes.fromhex(it["hex"]), it["dtype"])[0]

    return {
        "WHERE label = 'hound' AND id >= 20": chosen(
            lambda row: row["label"] == plain_class("hound") and number(row, "id") >= 20
        ),
        "WHERE score IS NULL": chosen(lambda row: row["score"] is None),
        "WHERE score > 10 AND score < 12": chosen(
            lambda row: row["score"] is not None and 10 < number(row, "score") < 12
        ),
        "WHERE count = 70000": chosen(lambda row: number(row, "count") == 70_000),
        "WHERE LENGTH(boxes) = 2": chosen(lambda row: row["boxes"]["shape"][0] == 2),
        "WHERE remark LIKE 'note%'": chosen(lambda row: (row["remark"] or "").startswith("note")),
        'WHERE "pose/box/x" < -50': chosen(lambda row: number(row, "pose/box/x") < -50),
    }


def expired(url: str) -> dict[str, Any]:
    ds = tl.create(url, {"x": "int64"}, grace="1min")
    for number in range(5):
        ds.extend({"x": [number * 10, number * 10 + 1]})
        if number:
            ds["x"][0] = -number
        ds.commit(f"commit {number + 1}")
    ds.optimize()
    ds.tag("kept", at="main@2")
    ds.expire(keep_last=1)
    time.sleep(70)  # past the grace time, by the file system's clock
    assert ds.gc().deleted_packs > 0
    values = [-4, 1, 10, 11, 20, 21, 30, 31, 40, 41]
    return {"main": values, "kept": [-1, 1, 10, 11], "expired": ["main@1", "main@3", "main@4"]}


def main(folder: Path) -> None:
    expected = {"lake": lake(str(folder / "lake"))}
    tl.copy(str(folder / "lake"), str(folder / "mirror"), mirror=True)
    if not IS_LAKE_ALONE:
        tl.copy(str(folder / "lake"), str(folder / "alone"), version="before", history=False)
        expected["expired"] = expired(str(folder / "expired"))
        from tests.golden.release_types import every_type

        expected["types"] = every_type(str(folder / "types"))
    lines = json.dumps(expected, ensure_ascii=False, indent=0, sort_keys=True)
    (folder / "expected.json").write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
