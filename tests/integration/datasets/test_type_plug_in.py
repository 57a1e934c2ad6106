"""A package brings types by entry points: the SDK, TQL, loaders and the server pick them up.

The package is written to a folder, as pip would install it: modules and a ``.dist-info``.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.types import from_json
from tensorlake_server.app.app import create_app
from tensorlake_server.settings.settings import Settings

PAGE = Path(__file__).parents[3] / "docs/how-to/add-a-type.md"
TOKEN = "a-token-of-tests"
BOXES = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorlake.types import SampleType, check_default, ragged_column


@dataclass(frozen=True, slots=True)
class Faces(SampleType):
    """Boxes around faces."""

    kind: ClassVar[str] = "faces"

    format: str = "xywh"
    of: str | None = None

    def __post_init__(self):
        check_default(self)

    layout = property(lambda self: "ragged")
    dtype = property(lambda self: np.dtype(np.float32))
    shape = property(lambda self: (None, 4))
    query_kind = property(lambda self: "number")
    drawn_as = property(lambda self: "bbox")

    def convert_values(self, samples, place):
        return ragged_column(samples, self.dtype, self.shape, place)


class Other:
    kind = "not_a_type"


class Misnamed(Faces):
    kind = "another_name"
'''
ENTRY_POINTS = """[tensorlake.types]
sensor_depth = sensors:Depth
faces = sensors:Faces
not_a_type = sensors:Other
misnamed = sensors:Misnamed
broken = sensors.missing:Nothing
"""


def depth_class() -> str:
    """The class of the how-to page, without its `@register`: entry points find it."""
    (code,) = re.findall(r"```python\n(import zlib.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    own = code.replace('kind: ClassVar[str] = "depth"', 'kind: ClassVar[str] = "sensor_depth"')
    return own.replace("@register\n", "")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    (site / "sensors").mkdir()
    (site / "sensors/__init__.py").write_text(depth_class() + BOXES, "utf-8")
    info = site / "sensors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sensors\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    yield site
    sys.path.remove(str(site))
    sys.modules.pop("sensors", None)


@pytest.fixture(scope="module")
def lake(installed, tmp_path_factory):
    """A dataset of the plug-in's types, written by a program that imports them."""
    root = tmp_path_factory.mktemp("lake")
    program = """
import sys
import numpy as np, tensorlake as tl
from sensors import Depth, Faces
schema = {"depth": Depth(nullable=True), "faces": Faces(of="depth"), "n": "int8"}
ds = tl.create(sys.argv[1], schema, durability="none")
ramp = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 20
ds.extend({"depth": [ramp, None, ramp // 2], "faces": [[[1, 2, 3, 4]], [], [[0, 0, 9, 9]]],
           "n": [0, 1, 2]})
ds.commit("from a sensor")
"""
    path = [str(installed), *sys.path]
    subprocess.run(
        [sys.executable, "-c", program, str(root / "rooms")],
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, path)), "PATH": ""},
        timeout=300,
    )
    return root


@pytest.fixture(scope="module")
def client(lake):
    settings = Settings(url=str(lake), token=TOKEN, signing_key=b"k" * 16, static=lake / "none")
    transport = httpx.ASGITransport(create_app(settings))
    return httpx.AsyncClient(
        transport=transport,
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def get(client, path, **json):
    import anyio

    async def ask():
        if json:
            return await client.post(f"/v1/datasets/rooms{path}", json=json)
        return await client.get(f"/v1/datasets/rooms{path}")

    answer = anyio.run(ask)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.slow
def test_the_sdk_finds_the_class_when_a_schema_names_it(lake):
    ds = tl.open(str(lake / "rooms"))

    assert type(ds.schema["depth"]).__module__ == "sensors"
    assert ds[0]["depth"].shape == (48, 64)
    assert ds[1]["depth"] is None
    assert ds["depth"].shapes().tolist() == [[48, 64], [-1, -1], [48, 64]]
    assert ds["depth"][2, 1, :3].tolist() == [640, 650, 660]
    assert ds["faces"][0].tolist() == [[1, 2, 3, 4]]
    assert "Depth" in repr(ds)


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "pandas"])
def test_what_goes_out_comes_back_as_the_type_it_was(lake, tmp_path, kind):
    ds = tl.open(str(lake / "rooms"))

    if kind == "pandas":
        again = tl.ingest.arrow(ds.to_pandas(), tmp_path / "again")
    else:
        getattr(ds, f"to_{kind}")(tmp_path / "out")
        again = getattr(tl.ingest, kind)(tmp_path / "out", tmp_path / "again")

    assert dict(again.schema) == dict(ds.schema)
    for row in range(3):
        assert np.array_equal(again[row]["faces"], ds[row]["faces"])
        if row != 1:
            assert np.array_equal(again[row]["depth"], ds[row]["depth"])
    assert again[1]["depth"] is None


def test_exporters_of_bytes_take_samples_as_they_are_stored(lake, tmp_path):
    rows = tl.open(str(lake / "rooms")).query("WHERE n <> 1")
    stored = rows.to_arrow().column("depth").to_pylist()
    assert [np.frombuffer(one[:8], "<u4").tolist() for one in stored] == [[48, 64]] * 2

    rows.to_mds(tmp_path / "mds")
    shard = (tmp_path / "mds/shard.00000.mds").read_bytes()
    assert all(one in shard for one in stored)
    assert '"column_encodings": ["bytes",' in (tmp_path / "mds/index.json").read_text("utf-8")
    group = rows.to_zarr(tmp_path / "zarr")
    assert np.asarray(group["faces/values"]).tolist() == [1, 2, 3, 4, 0, 0, 9, 9]


@pytest.mark.parametrize("form", ["csv", "jsonl", "numpy"])
def test_exporters_of_text_and_numbers_name_what_they_cannot_take(lake, tmp_path, form):
    with pytest.raises(tl.UnsupportedFeatureError, match=r"'depth'.*\n.*to_parquet"):
        getattr(tl.open(str(lake / "rooms")), f"to_{form}")(tmp_path / "out")


def test_tql_sees_what_the_type_says(lake):
    ds = tl.open(str(lake / "rooms"))

    assert ds.query("WHERE SHAPE(depth)[0] = 48 AND ANY(depth > 40000)").rows.tolist() == [0]
    assert ds.query("WHERE LENGTH(faces) = 0").rows.tolist() == [1]
    assert ds.query("SELECT faces[:, 2] AS width WHERE n = 2")["width"][0].tolist() == [9]


def test_loaders_decode_it(lake):
    ds = tl.open(str(lake / "rooms"))

    batch = next(iter(ds.query("WHERE n <> 1").torch(batch_size=2, columns=["depth", "faces"])))

    assert [tuple(one.shape) for one in batch["depth"]] == [(48, 64)] * 2
    assert [tuple(one.shape) for one in batch["faces"]] == [(1, 4)] * 2


def test_the_server_names_as_what_it_is_drawn(client):
    depth, faces, _ = get(client, "").json()["tensors"]

    assert (depth["kind"], depth["picture"], depth["type"]) == ("image", True, "Depth")
    assert depth["media_type"] == "application/x-depth"
    assert (faces["kind"], faces["format"], faces["of"]) == ("bbox", "xywh", "depth")


def test_the_server_draws_it_as_an_image(client):
    sample = get(client, "/tensors/depth/0")
    raw = get(client, "/tensors/depth/0?raw")
    frames = get(client, "/thumbnails", tensor="depth", rows=[0, 1], size=32)

    assert sample.headers["content-type"] in ("image/png", "image/jpeg")
    assert raw.headers["content-type"] == "application/octet-stream"
    assert np.frombuffer(raw.content[:8], "<u4").tolist() == [48, 64]
    assert b"\x89PNG" in frames.content


def test_the_server_shows_its_rows(client):
    rows = get(client, "/rows?limit=2").json()["rows"]

    assert rows[0]["faces"] == [[1, 2, 3, 4]]
    assert rows[0]["depth"] == {
        "$summary": "media",
        "media_type": "application/x-depth",
        "nbytes": rows[0]["depth"]["nbytes"],
        "shape": [48, 64],
    }
    assert rows[1]["depth"] is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("not_a_type", "is not a SampleType"),
        ("misnamed", "has the kind 'another_name'"),
        ("broken", "cannot be loaded"),
        ("nowhere", "install the plug-in"),
    ],
)
def test_a_plug_in_that_cannot_be_is_named(installed, kind, why):
    with pytest.raises(tl.UnsupportedFeatureError, match=why):
        from_json({"kind": kind})


@pytest.mark.slow
def test_without_the_plug_in_reading_the_tensor_names_the_missing_type(lake):
    program = "import sys, tensorlake as tl; ds = tl.open(sys.argv[1]); ds['depth'][0]"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(lake / "rooms")],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(one for one in sys.path if "site" not in Path(one).name),
             "PATH": ""},
        timeout=300,
    )  # fmt: skip

    assert "type 'sensor_depth', unknown to this version" in ended.stderr
    assert "install the plug-in" in ended.stderr
