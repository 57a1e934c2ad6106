"""Files of meshes that are cut or lie are refused, in bounded time and memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.meshes import FORMS, mesh_file


def refused(content: bytes, message: str, *, limit: int = 1 << 30) -> None:
    with pytest.raises(InvalidInputError, match=message):
        tl.Mesh(max_nbytes=limit).convert([content], tensor="mesh")


@pytest.mark.parametrize("form", ["glb", "gltf", "ply", "ply ascii", "stl", "off"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_cut_file_is_refused(form: str, share: float) -> None:
    content = mesh_file(form)

    refused(content[: int(len(content) * share)], "cannot take a sample")


@given(form=st.sampled_from(FORMS), data=st.data())
@settings(max_examples=80)
def test_a_damaged_file_is_refused_or_read_but_never_crashes(
    form: str, data: st.DataObject
) -> None:
    content = bytearray(mesh_file(form))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    try:
        column = tl.Mesh(max_nbytes=1 << 24).convert([bytes(content)], tensor="mesh")
    except InvalidInputError:
        return

    assert len(column) == 1


def changed(change: dict[str, Any]) -> bytes:
    """Return an embedded glTF with some of its members changed, by a path of keys."""
    tree = json.loads(mesh_file("gltf"))
    for path, value in change.items():
        *parents, last = [int(one) if one.isdigit() else one for one in path.split("/")]
        place: Any = tree
        for one in parents:
            place = place[one]
        if isinstance(place, list):
            place[last:] = [value]
        else:
            place[last] = value
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accessors/0/count": 1 << 40}, "an accessor promises 1,099,511,627,776 elements"),
        ({"accessors/0": {"count": 1 << 40, "componentType": 5126, "type": "MAT4"}}, "70.4 TB"),
        ({"accessors/0/count": -1}, "not glTF"),
        ({"accessors/0/count": 1.5}, "not glTF"),
        ({"accessors/0/type": "VEC9"}, "not glTF"),
        ({"accessors/0/sparse": {}}, "sparse"),
        ({"bufferViews/0/byteLength": 1 << 40}, "are beyond its buffer"),
        ({"buffers/0/byteLength": 1 << 40}, "a buffer promises 1,099,511,627,776 bytes"),
        ({"buffers/0/uri": "file:///etc/passwd"}, "'file:///etc/passwd' is another file"),
        ({"buffers/0/uri": "http://169.254.169.254/"}, "is another file"),
        ({"images": [{"uri": "../secret.png"}]}, "'../secret.png' is another file"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "compressed by KHR_draco"),
        ({"nodes": [{"children": [1, 1]}, {"mesh": 0}]}, "two parents"),
        ({"nodes": [{"children": [0]}]}, "two parents|not there"),
        ({"nodes": [{"children": [7]}]}, "not there"),
        ({"nodes": [{"mesh": 1}] * 60_000, "scenes": [{"nodes": []}]}, "promises .* of mesh"),
        ({"nodes": [{}] * 100_000}, "it has 100,000 nodes"),
        ({"meshes": 3}, "not glTF"),
        ({"meshes": [{}]}, "not glTF"),
        ({"nodes": None}, "not glTF"),
    ],
)
def test_gltf_that_promises_more_is_refused(change: dict[str, Any], message: str) -> None:
    refused(changed(change), message, limit=1 << 28)


def test_glb_with_other_lengths_is_refused() -> None:
    content = mesh_file("glb")

    def patched(at: int, value: int) -> bytes:
        return content[:at] + struct.pack("<I", value) + content[at + 4 :]

    refused(patched(8, len(content) + 5), "promises")
    refused(patched(12, 1 << 31), "longer than the file")
    refused(patched(4, 1), "version 1")
    refused(content + b"\0\0\0", "promises")
    nested = b'{"asset":' + b"[" * 100_000
    refused(nested, "cannot be parsed")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"OFF\n999999999999 1 0\n0 0 0\n3 0 0 0\n", "promises 999,999,999,999 vertices"),
        (b"OFF\nmany\n", "numbers of vertices"),
        (
            b"ply\nformat ascii 1.0\nelement vertex 99999999999\nproperty float x\nend_header\n",
            "promises .* bytes or more",
        ),
        (
            b"ply\nformat binary_little_endian 1.0\nelement e 99999999999\nend_header\n",
            "'e' have no properties",
        ),
        (b"solid a\nfacet normal 0 0 1\n", "trimesh cannot read it|no triangles|no vertices"),
        (b"v 0 0 0\nf 1 2 3\n", "corner|cannot read"),
    ],
)
def test_other_files_that_promise_more_are_refused(content: bytes, message: str) -> None:
    refused(content, message)


def test_text_larger_than_the_limit_is_refused_unread() -> None:
    refused(b"v 0 0 0\n" * 10_000, "may be 320 kB of mesh", limit=100_000)


@pytest.mark.slow
def test_hostile_files_are_refused_in_little_memory() -> None:
    """In a child whose memory is limited to 1.5 GB."""
    script = """
import resource
import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.meshes import mesh_file
from tests.unit.types.meshes.test_hostile_files import changed
tl.Mesh().convert([mesh_file("glb"), mesh_file("ply"), mesh_file("gltf")], tensor="mesh")
resource.setrlimit(resource.RLIMIT_AS, (1_500 << 20, 1_500 << 20))
big = {"count": 1 << 32, "componentType": 5126, "type": "VEC3"}
files = [
    changed({"accessors/0": big}),
    changed({"nodes": [{"mesh": 0}] * 500_000}),
    mesh_file("ply").replace(b"element face 320", b"element face 3200000000"),
    mesh_file("ply").replace(b"element vertex 162", b"element vertex 4000000000"),
]
for content in files:
    try:
        tl.Mesh().convert([content], tensor="mesh")
    except InvalidInputError:
        print("refused")
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )

    assert ran.stdout.count("refused") == 4
