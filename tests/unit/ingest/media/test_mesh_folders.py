"""Folders of meshes and tables beside them, and files exported again."""

import tarfile

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.meshes import mesh_file

FILES = {f"{form}.{form}": mesh_file(form) for form in ("glb", "gltf", "obj", "off", "ply", "stl")}


@pytest.fixture
def folder(tmp_path):
    """A folder of meshes with a table beside."""
    (tmp_path / "models").mkdir()
    for name, content in FILES.items():
        (tmp_path / "models" / name).write_bytes(content)
    lines = [f"{name},{number}" for number, name in enumerate(FILES)]
    (tmp_path / "prices.csv").write_text("\n".join(["file,price", *lines]))
    return tmp_path / "models"


def test_a_folder_goes_in_and_comes_out_with_every_byte(folder, tmp_path):
    ds = tl.ingest.mesh(folder, "memory://meshes", table=folder.parent / "prices.csv")
    ds.to_webdataset(str(tmp_path / "shards"))
    ds.to_parquet(tmp_path / "meshes.parquet")
    ds.to_mds(tmp_path / "mds")

    (shard,) = (tmp_path / "shards").glob("*.tar")
    with tarfile.open(shard) as opened:
        names = [one for one in opened.getnames() if ".mesh." in one]
        stored = [opened.extractfile(one).read() for one in names]
    backs = [
        tl.ingest.webdataset(str(shard), "memory://meshes-back"),
        tl.ingest.parquet(tmp_path / "meshes.parquet", "memory://meshes-parquet"),
        tl.ingest.arrow(ds.to_arrow(), "memory://meshes-arrow"),
    ]

    assert ds["price"][:].tolist() == list(range(6))
    assert [f"{name.rpartition('.')[2]}" for name in names] == [
        name.partition(".")[0] for name in FILES
    ]
    assert stored == [*FILES.values()]
    for back in backs:
        assert [back["mesh"].bytes(row) for row in range(6)] == [*FILES.values()]
        assert isinstance(back["mesh"].type, tl.Mesh)
    assert tl.ingest.mesh(folder, "memory://meshes-again").ingest_report.added == 6
    assert tl.ingest.mesh(folder, "memory://meshes-again").ingest_report.added == 0


def test_a_cut_file_is_named_and_may_be_left_out(folder):
    (folder / "off.off").write_bytes(FILES["off.off"][:-900])

    with pytest.raises(InvalidInputError, match=r"off\.off.*it promises 162 vertices"):
        tl.ingest.mesh(folder, "memory://meshes-cut")
    assert len(tl.ingest.mesh(folder, "memory://meshes-skip", on_error="skip")) == 5
