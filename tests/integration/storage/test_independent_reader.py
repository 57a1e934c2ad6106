"""The second reader, written from the specification, reads what we read.

``examples/read_without_tensorlake.py`` shares no code with the package: where the two disagree,
the reference is wrong, or one of them.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.format import seal
from tensorlake.types import EncodedColumn, RaggedColumn

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "read_without_tensorlake.py"
GOLDEN = ROOT / "tests" / "golden" / "v1"
EVOLVED = ROOT / "tests" / "golden" / "v1_evolved"
CLASSES = ROOT / "tests" / "golden" / "v1_classes"
TOTALS = ROOT / "tests" / "golden" / "v1_totals"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("read_without_tensorlake", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


OTHER = loaded()


def stored(dataset: Any, name: str) -> list[Any]:
    """Samples as stored, None where NULL, by our own reader."""
    rows = np.arange(len(dataset), dtype=np.int64)
    column = (
        rowset_of(dataset)
        .reader()
        .read(name, rowset_of(dataset).selection.physical(rows), decode=False)
    )
    valid = [True] * len(column) if column.valid is None else column.valid.tolist()
    match column:
        case EncodedColumn():
            samples = [bytes(sample) for sample in column.samples]
        case RaggedColumn():
            samples = [column.sample(at) for at in range(len(column))]
        case _:
            samples = list(column.values)
    return [sample if own else None for sample, own in zip(samples, valid, strict=True)]


def assert_same(folder: Path, version: str = "main") -> None:
    branch, _, number = version.partition("@")
    ours = tl.open(folder.as_posix(), version, read_only=True)
    other = OTHER.Dataset(str(folder), branch, int(number) if number else None)
    assert (other.names, other.num_rows) == (list(ours.schema), len(ours))
    assert f"{branch}@{other.log_entry['seq']}" == ours.version
    for name in ours.schema:
        for theirs, mine in zip(other.read(name), stored(ours, name), strict=True):
            if mine is None or isinstance(mine, bytes):
                assert theirs == mine
            else:
                assert (theirs.dtype, theirs.shape) == (mine.dtype, mine.shape)
                assert theirs.tobytes() == mine.tobytes()


def golden_versions() -> list[str]:
    commits = [commit.version for commit in tl.open(GOLDEN.as_posix(), read_only=True).log()]
    return [*commits, "main", "side/größe"]


@pytest.mark.parametrize("version", golden_versions())
def test_every_golden_version_reads_the_same(version):
    assert_same(GOLDEN, version)


@pytest.mark.parametrize("number", range(5))
def test_altered_types_and_united_classes_read_the_same(number):
    assert_same(EVOLVED, f"main@{number}")


@pytest.mark.parametrize("version", ["main", "main@3", "fix", "fix@2"])
def test_classes_that_merges_moved_read_the_same(version):
    assert_same(CLASSES, version)


def test_chunks_below_pages_read_the_same():
    assert_same(TOTALS)


def test_it_needs_no_tensorlake():
    """It runs where the package cannot be imported."""
    code = (
        "import sys, runpy; sys.modules['tensorlake'] = None;"
        f"sys.argv = ['x', {str(GOLDEN)!r}, 'main@1']; runpy.run_path({str(EXAMPLE)!r}, "
        "run_name='__main__')"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "3 rows of three rows" in done.stdout


def test_a_flipped_byte_is_noticed(tmp_path):
    dataset = tl.create((tmp_path / "d").as_posix(), {"x": "int64"}, durability="none")
    dataset.extend({"x": np.arange(10)})
    dataset.commit()
    (pack,) = (tmp_path / "d" / "packs").rglob("*.tlp")
    data = bytearray(pack.read_bytes())
    data[130] ^= 1
    pack.write_bytes(data)

    with pytest.raises(ValueError, match="damaged"):
        OTHER.Dataset(str(tmp_path / "d")).read("x")


def forge(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a sealed object, and seal it again."""
    value = json.loads(file.read_bytes())
    change(value)
    file.write_bytes(seal(value))


def first_tensor(entry: dict[str, Any]) -> dict[str, Any]:
    return entry["schema"]["tensors"][0]


@pytest.mark.parametrize(
    ("file", "change", "unknown"),
    [
        ("tensorlake.json", lambda it: it.update(version=2), "the format ('tensorlake', 2)"),
        (
            "branches/main/0000000001.json",
            lambda it: it["features"].update(read=["narrow-floats"]),
            "the feature 'narrow-floats'",
        ),
        (
            "branches/main/0000000001.json",
            lambda it: it["roots"][first_tensor(it)["id"]]["tail"].update(kind=[4]),
            "extents of kind 4",
        ),
        (
            "branches/main/0000000001.json",
            lambda it: it["rows"]["tail"].update(kind=[9]),
            "row segments of kind 9",
        ),
        (
            "branches/main/0000000001.json",
            lambda it: first_tensor(it)["encodings"][0]["codecs"][1].update(name="pcodec"),
            "the codec 'pcodec'",
        ),
    ],
)
def test_what_it_was_not_taught_is_refused_by_name(tmp_path, file, change, unknown):
    folder = tmp_path / "d"
    dataset = tl.create(folder.as_posix(), {"x": "int64"}, durability="none")
    dataset.extend({"x": np.arange(1000)})
    dataset.commit()
    forge(folder / file, change)

    with pytest.raises(NotImplementedError, match=re.escape(f"does not know {unknown}")):
        OTHER.Dataset(str(folder)).read("x")


def test_widened_and_ragged_tensors_and_fills_read_the_same(tmp_path):
    folder = tmp_path / "d"
    schema = {"x": tl.Scalar("int16", nullable=True), "shape": tl.Array("uint8", shape=(2, 2))}
    dataset = tl.create(folder.as_posix(), schema, durability="none")
    dataset.extend({"x": [1, None, -3], "shape": np.arange(12, dtype=np.uint8).reshape(3, 2, 2)})
    dataset.commit()
    dataset.alter_tensor("x", dtype="int32")
    dataset.alter_tensor("shape", shape=(None, 2))
    dataset.add_tensor("words", tl.Text(), fill="größe")
    dataset.add_tensor("boxes", tl.BBox(), fill=[[1, 2, 3, 4]])
    dataset.append({"x": 2**20, "shape": [[1, 2]], "words": "", "boxes": np.zeros((0, 4))})
    dataset.commit()

    assert_same(folder)


def test_class_codes_that_a_rebase_changed_read_the_same(tmp_path):
    folder = tmp_path / "d"
    schema = {"label": tl.ClassLabel(["cat"])}
    mine = tl.create(folder.as_posix(), schema, durability="none")
    other = tl.open(folder.as_posix(), durability="none")
    other["label"].add_names(["dog"])
    other.append({"label": "dog"})
    other.commit()
    mine["label"].add_names(["bird"])
    mine.extend({"label": ["bird", "cat"]})
    mine.commit()

    assert (mine["label"][:] == ["dog", "bird", "cat"]).all()
    assert any("codes" in one for one in OTHER.Dataset(str(folder)).tensors["label"]["encodings"])
    assert_same(folder)


def test_large_indexes_and_sorted_and_thinned_rows_read_the_same(tmp_path):
    """Trees of several leaves; segments of every kind; compressed columns of headers."""
    folder = tmp_path / "d"
    dataset = tl.create(folder.as_posix(), {"x": "int32", "t": "str"}, durability="none")
    dataset.extend({"x": np.arange(5000), "t": [f"row {n}" * (n % 7) for n in range(5000)]})
    dataset.commit()
    for number in range(150):
        dataset.append({"x": number, "t": "one"})
        dataset.commit()
    dataset.delete(np.random.default_rng(0).choice(5150, 1500, replace=False))
    dataset.commit()
    dataset["x"][np.arange(0, 3000, 97)] = np.arange(0, 3000, 97) * 2
    dataset.commit()

    assert_same(folder)


def test_spilled_schemas_and_roots_read_the_same(tmp_path):
    folder = tmp_path / "d"
    schema = {f"group/tensor-{n:04}": "int16" for n in range(300)}
    dataset = tl.create(folder.as_posix(), schema, durability="none")
    dataset.append(dict.fromkeys(schema, 3))
    dataset.commit()

    assert_same(folder)


DTYPES = ("bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64")


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tl.SampleType, Any]:
    """A type, and a strategy of its values."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES[1:])))
    if dtype.kind == "f":
        number: Any = st.floats(width=dtype.itemsize * 8)
    else:
        info = np.iinfo(dtype)
        number = st.integers(int(info.min), int(info.max))
    kind = draw(st.sampled_from(["scalar", "fixed", "ragged", "text", "json", "bytes", "bool"]))
    nullable = draw(st.booleans())
    width = draw(st.integers(0, 3) | st.just(300))
    match kind:
        case "scalar":
            one, value = tl.Scalar(dtype.name, nullable=nullable), number
        case "fixed":
            one = tl.Array(dtype.name, shape=(width, 2), nullable=nullable)
            value = number.map(lambda n: np.full((width, 2), n, dtype))
        case "ragged":
            one = tl.Array(dtype.name, shape=(None, 2), nullable=nullable)
            pairs = st.integers(0, 4)
            value = st.tuples(number, pairs).map(lambda t: np.full((t[1], 2), t[0], dtype))
        case "text":
            one, value = tl.Text(nullable=nullable), st.text(max_size=20)
        case "json":
            one, value = tl.Json(nullable=nullable), st.dictionaries(st.text(max_size=2), st.none())
        case "bytes":
            one, value = tl.Bytes(nullable=nullable), st.binary(max_size=30)
        case _:
            one, value = tl.Bool(nullable=nullable), st.booleans()
    return one, st.none() | value if nullable else value


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=25)
def test_any_dataset_reads_the_same(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any") / "d"
    chosen = data.draw(st.lists(tensors(), min_size=1, max_size=3))
    schema = {f"t{number}": one for number, (one, _) in enumerate(chosen)}
    values = {f"t{number}": value for number, (_, value) in enumerate(chosen)}
    dataset = tl.create(folder.as_posix(), schema, durability="none")
    for _ in range(data.draw(st.integers(1, 3))):
        count = data.draw(st.integers(0, 12))
        rows = {
            name: data.draw(st.lists(value, min_size=count, max_size=count))
            for name, value in values.items()
        }
        dataset.extend(rows)
        dataset.commit()
        if len(dataset) and data.draw(st.booleans()):
            row = data.draw(st.integers(0, len(dataset) - 1))
            dataset["t0"][row] = data.draw(values["t0"])
            dataset.commit()
        if len(dataset) > 1 and data.draw(st.booleans()):
            dataset.delete([data.draw(st.integers(0, len(dataset) - 1))])
            dataset.commit()
    dataset.close()

    assert_same(folder)
