"""Ask Deep Lake 4.7.4 what the conformance page asks ours, and record what it answers.

Run in an environment of its own, which needs nothing of ours:

    python -m venv peer && peer/bin/pip install "numpy<2.3" deeplake==4.7.4
    peer/bin/python tests/unit/query/conformance/record_deeplake.py

It writes `deeplake.json` beside it: query → {"rows", "columns"}, {"error"}, {"hangs"} or {"dies"}.
The data are the four rows of docs/reference/tql.md, with a column `row` that tells which rows came
back. As row 2 holds NULLs, a query that fails is asked again of the other three, in columns that
know no NULL: {…, "without_null": …}. Each query runs in a process that is ended when it is silent.
"""

import json
import multiprocessing
import re
import tempfile
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
REFERENCE = HERE.parents[3] / "docs/reference/tql.md"
PATIENCE_S = 20
CLASSES = ["cat", "dog", "bird"]
DAY = 86_400
BASE = (
    "row", "label", "labels", "score", "caption", "meta", "boxes", "vector", "image", "taken",
    "camera/left",
)  # fmt: skip


def make(folder: str, kept: list[int], *, knows_null: bool) -> Any:
    """Return a dataset of some of the four rows."""
    deeplake: Any = import_module("deeplake")
    types = deeplake.types
    page = REFERENCE.read_text(encoding="utf-8")
    found = re.search(r"```json\n(.*?)```", page, flags=re.DOTALL)
    assert found, "the page shows its rows"
    data = json.loads(found[1])
    sizes = re.findall(r"(\d+)×(\d+)", data["image"])
    made = deeplake.create(folder)
    for name, kind in {
        "row": types.Int64(),
        "label": types.ClassLabel("uint32"),
        "labels": types.ClassLabel(types.Array("uint32", 1)),
        "score": types.Nullable(types.Float32()) if knows_null else types.Float32(),
        "caption": types.Nullable(types.Text()) if knows_null else types.Text(),
        "meta": types.Nullable(types.Dict()) if knows_null else types.Dict(),
        "boxes": types.Array("float32", 2),
        "vector": types.Array("float32", 1),
        "image": types.Image("uint8"),
        "taken": types.Int64(),
        "camera/left": types.Int64(),
    }.items():
        made.add_column(name, kind)
    for name in ("label", "labels"):
        made[name].metadata["class_names"] = CLASSES
    codes = [[CLASSES.index(each) for each in names] for names in data["labels"]]
    rows: dict[str, list[Any]] = {
        "row": list(range(4)),
        "label": [np.uint32(CLASSES.index(each)) for each in data["label"]],
        "labels": [np.array(each, np.uint32) for each in codes],
        "score": [None if each is None else np.float32(each) for each in data["score"]],
        "caption": data["caption"],
        "meta": data["meta"],
        "boxes": [np.array(each, np.float32).reshape(-1, 4) for each in data["boxes"]],
        "vector": [np.array(each, np.float32) for each in data["vector"]],
        "image": [np.zeros((int(h), int(w), 3), np.uint8) for h, w in sizes],
        "taken": [day * DAY for day in (19_723, 19_722, 20_089, 20_454)],
        "camera/left": [1, 2, 3, 1],
    }
    made.append({name: [values[row] for row in kept] for name, values in rows.items()})
    made.commit()
    return made


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return "NaN" if np.isnan(value) else float(np.round(value, 4))
    return value if value is None or isinstance(value, str | int | bool | dict) else repr(value)


def answer(dataset: Any, query: str) -> dict[str, Any]:
    """Return what a query gives."""
    try:
        found = dataset.query(query)
        names = [column.name for column in found.schema.columns]
        columns = {
            name: [plain(found[name][row]) for row in range(len(found))]
            for name in names
            if name != "image"
        }
    except Exception as error:  # noqa: BLE001 whatever it says is the answer
        return {"error": str(error).strip().splitlines()[0]}
    told: dict[str, Any] = {}
    if "row" in columns:
        told["rows"] = columns.pop("row")
        columns = {name: values for name, values in columns.items() if name not in BASE}
    return {**told, "columns": columns}


def serve(pipe: Connection) -> None:
    """Answer queries until the process is ended."""
    with tempfile.TemporaryDirectory() as folder:
        whole = make(f"{folder}/whole", [0, 1, 2, 3], knows_null=True)
        known = make(f"{folder}/known", [0, 1, 3], knows_null=False)
        while True:
            query, has_null = pipe.recv()
            url = f"{folder}/whole" if has_null else f"{folder}/known"
            pipe.send(answer(whole if has_null else known, query.replace("{url}", url)))


class Peer:
    """A process that answers, and another where that one fell silent."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None

    def answer(self, query: str, *, has_null: bool) -> dict[str, Any]:
        """Return what a query gives, or that it gives nothing."""
        if self._process is None:
            self._pipe, far = self._context.Pipe()
            self._process = self._context.Process(target=serve, args=(far,))
            self._process.start()
            far.close()
        self._pipe.send((query, has_null))
        try:
            if self._pipe.poll(PATIENCE_S):
                return self._pipe.recv()
            found = {"hangs": PATIENCE_S}
        except EOFError:
            found = {"dies": True}
        self.close()
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def asked() -> list[str]:
    """Return every query of the page in Deep Lake's spelling."""
    queries: dict[str, None] = {}
    for name in ("items.txt", "language.txt"):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            *_, ours, theirs = (cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line))
            if theirs != "-":
                queries[theirs or ours] = None
    return list(queries)


def main() -> None:
    """Record every answer."""
    peer = Peer()
    answers: dict[str, dict[str, Any]] = {}
    for query in asked():
        answers[query] = peer.answer(query, has_null=True)
        if "columns" not in answers[query]:
            again = peer.answer(query, has_null=False)
            if again != answers[query]:
                answers[query]["without_null"] = again
    peer.close()
    version = import_module("deeplake").__version__
    told = {"deeplake": version, "patience_s": PATIENCE_S, "answers": answers}
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    (HERE / "deeplake.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
