"""What an export may replace: an earlier one of its format, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.cli import main
from tensorlake.dataset.export.destinations import new_folder
from tensorlake.dataset.export.records.mds import FORM
from tensorlake.storage import MAX_PUT_NBYTES, exchange_names, open_store, run

FOLDERS = ("zarr", "mds", "litdata", "tfrecord", "webdataset", "lerobot", "croissant", "coco")
FILES = ("parquet", "hdf5", "csv", "jsonl", "numpy")
OPTIONS = {"lerobot": {"fps": 5}}
COLUMNS = {
    "coco": ["image"],
    "numpy": ["x"],
    "csv": ["x"],
    "jsonl": ["x"],
    "lerobot": ["x"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made") / "a.tl"
    ds = tl.create(place, {"episode": "int64", "x": "int64", "image": tl.Image("jpeg")})
    image = simplejpeg.encode_jpeg(np.zeros((4, 6, 3), np.uint8))
    ds.extend({"episode": [0, 0], "x": [1, 2], "image": [image, image]})
    ds.commit("two")
    return ds


def export(ds, kind, dst, **more):
    return ds.export(kind, dst, columns=COLUMNS.get(kind), **OPTIONS.get(kind, {}), **more)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("kind", [*FOLDERS, *FILES])
@pytest.mark.parametrize("where", ["a.tl", "a.tl/sub", "a.tl/packs/more"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_written_in_a_dataset(made, kind, where, overwrite):
    lake = Path(made.url).parent
    before = tree(lake)

    with pytest.raises(tl.InvalidInputError, match="a dataset, where no export is written"):
        export(made, kind, lake / where, overwrite=overwrite)

    assert tree(lake) == before


@pytest.mark.parametrize("kind", [*FOLDERS, *FILES])
@pytest.mark.parametrize(
    "content",
    ["thesis.txt", "docs/thesis.txt", "b.tl/tensorlake.json", "index.json", "images/1.jpg"],
)
def test_a_folder_of_others_is_kept(made, tmp_path, kind, content):
    place = tmp_path / "home" / content
    place.parent.mkdir(parents=True)
    place.write_text("{}")

    with pytest.raises(tl.InvalidInputError, match="is not replaced, because"):
        export(made, kind, tmp_path / "home", overwrite=True)

    assert place.read_text() == "{}"
    assert [one.name for one in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("kind", [*FOLDERS, *FILES])
def test_an_earlier_export_is_replaced_until_it_has_more(made, tmp_path, kind):
    out = tmp_path / "out"
    export(made, kind, out)
    before = tree(out) if out.is_dir() else out.read_bytes()
    export(made[:1], kind, out, overwrite=True)
    after = tree(out) if out.is_dir() else out.read_bytes()

    assert before != after
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    if out.is_dir():
        (out / "notes.md").write_text("mine")
        with pytest.raises(tl.InvalidInputError, match=r"it has 'notes.md', which this format"):
            export(made, kind, out, overwrite=True)
        assert tree(out).keys() == {*after, "notes.md"}


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("other", [*FOLDERS, "parquet"])
def test_an_export_of_another_format_is_kept(made, tmp_path, kind, other):
    if kind == other:
        return
    export(made, other, tmp_path / "out")

    with pytest.raises(tl.InvalidInputError, match="is not replaced, because"):
        export(made, kind, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("kind", ["mds", "litdata", "coco", "lerobot", "webdataset", "croissant"])
def test_a_folder_of_another_program_with_the_same_names_is_kept(made, tmp_path, kind):
    """As its library writes it: without what only tensorlake leaves."""
    out = tmp_path / "out"
    export(made, kind, out)
    for name in (".tensorlake-export", "tensorlake-types.json"):
        (out / name).unlink(missing_ok=True)
    for shard in out.glob("*.tar"):
        shard.write_bytes(bytes(10240))

    with pytest.raises(tl.InvalidInputError, match="nothing shows that tensorlake wrote it"):
        export(made, kind, out, overwrite=True)

    assert any(out.iterdir())


@pytest.mark.parametrize("kind", ["parquet", "hdf5", "csv", "numpy"])
def test_a_file_of_another_format_is_kept(made, tmp_path, kind):
    (tmp_path / "thesis").write_bytes(b"%PDF-1.7\0\0")

    with pytest.raises(tl.InvalidInputError, match="it is a file of another format"):
        export(made, kind, tmp_path / "thesis", overwrite=True)

    assert (tmp_path / "thesis").read_bytes() == b"%PDF-1.7\0\0"


@pytest.mark.parametrize("kind", ["zarr", "mds", "coco"])
def test_a_file_is_not_replaced_by_a_folder(made, tmp_path, kind):
    (tmp_path / "thesis").write_text("x")

    with pytest.raises(tl.InvalidInputError, match="a folder would take its place"):
        export(made, kind, tmp_path / "thesis", overwrite=True)

    assert (tmp_path / "thesis").read_text() == "x"


def test_a_folder_named_partial_is_kept(made, tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis").write_text("x")

    with pytest.raises(tl.InvalidInputError, match="rename it, or give another path"):
        made.to_mds(tmp_path / "out")

    assert (tmp_path / "out.partial" / "thesis").read_text() == "x"


def test_a_link_leads_to_what_is_replaced(made, tmp_path):
    made.to_mds(tmp_path / "run1")
    (tmp_path / "latest").symlink_to(tmp_path / "run1")
    (tmp_path / "lake").symlink_to(Path(made.url).parent)

    made[:1].to_mds(tmp_path / "latest", overwrite=True)
    with pytest.raises(tl.InvalidInputError, match="is a dataset"):
        made.to_mds(tmp_path / "lake" / "a.tl", overwrite=True)

    assert (tmp_path / "latest").is_symlink()
    assert len(tl.ingest.mds(tmp_path / "run1", "memory://destination-link")) == 1


def test_the_shell_keeps_what_is_no_export(made, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("x")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tensorlake", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code

    for dst in (made.url, str(tmp_path / "home")):
        for kind in ("zarr", "parquet", "mds"):
            assert run("export", kind, made.url, dst, "--overwrite"), (kind, dst)
    query = ("query", made.url, "SELECT x", "--format", "parquet", "-o", made.url)

    assert run(*query)
    assert (tmp_path / "home" / "thesis").read_text() == "x"
    assert len(tl.open(made.url)) == 2


def test_exports_are_no_datasets(made, tmp_path):
    for kind in FOLDERS:
        export(made, kind, tmp_path / kind)

        assert not tl.exists(tmp_path / kind)
    assert tl.list(tmp_path) == []


@pytest.mark.parametrize("kind", ["mds", "litdata", "tfrecord"])
def test_types_beside_an_export_of_before_are_read_and_replaced(made, tmp_path, kind):
    out = tmp_path / "out"
    export(made, kind, out)
    (out / "tensorlake-types.json").rename(out / "tensorlake.json")

    again = getattr(tl.ingest, kind)(out, f"memory://destination-before-{kind}")
    export(made, kind, out, overwrite=True)

    assert dict(again.schema) == dict(made.schema)
    assert not (out / "tensorlake.json").exists()


def test_names_are_exchanged_in_one_step(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()

    if not exchange_names(str(tmp_path / "a"), str(tmp_path / "b")):
        pytest.skip("the file system has no exchange of names")

    assert [one.name for one in (tmp_path / "a").iterdir()] == ["b"]


ENDLESS = """
import itertools, sys
import tensorlake as tl
ds = tl.open(sys.argv[1])
print("begins", flush=True)
for at in itertools.count():
    getattr(ds[: at % 2 + 1], f"to_{sys.argv[2]}")(sys.argv[3], columns=["x"], overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("kind", ["zarr", "mds", "parquet"])
@pytest.mark.parametrize("after_s", [0.05, 0.11, 0.23])
def test_a_killed_export_leaves_the_old_or_the_new(made, tmp_path, kind, after_s):
    out = tmp_path / "out"
    export(made, kind, out)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, made.url, kind, str(out)], stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(after_s)
        running.send_signal(signal.SIGKILL)

    read = getattr(tl.ingest, kind)(out, f"memory://destination-killed-{kind}-{after_s}")
    assert read["x"][:].tolist() in ([1], [1, 2])
    made[:1].export(kind, out, columns=["x"], overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["parquet", "mds", "litdata", "tfrecord", "hdf5", "zarr"])
def test_an_export_of_no_rows_is_an_empty_dataset_again(tmp_path, kind):
    kinds = {"x": "int64", "text": tl.Text(), "label": tl.ClassLabel(["a"]), "i": tl.Image("png")}
    ds = tl.create(f"memory://destination-empty-{kind}", kinds)
    url = f"memory://destination-empty-{kind}-back"

    ds.export(kind, tmp_path / "out")
    again = getattr(tl.ingest, kind)
    back, preview = again(tmp_path / "out", url), again(tmp_path / "out", f"{url}-2", dry_run=True)

    assert (len(back), len(preview), dict(back.schema)) == (0, 0, kinds | dict(ds.schema))
    ds.extend({"x": [1], "text": ["a"], "label": [0], "i": [np.zeros((2, 2, 3), np.uint8)]})
    ds.export(kind, tmp_path / "out", overwrite=True)
    assert len(again(tmp_path / "out", url)) == 1
    ds.discard()


def test_masks_without_instances_keep_their_size_or_are_an_error(tmp_path):
    ds = tl.create("memory://destination-masks", {"m": tl.InstanceMask()})
    ds.extend({"m": [np.zeros((0, 480, 640), bool), np.ones((1, 2, 3), bool), []]})
    ds.commit("three")

    ds.to_webdataset(tmp_path / "out")
    back = tl.ingest.webdataset(tmp_path / "out", "memory://destination-masks-back")

    assert [row["m"].shape for row in back] == [(0, 480, 640), (1, 2, 3), (0, 0, 0)]
    for kind in ("parquet", "jsonl"):
        with pytest.raises(
            tl.UnsupportedFeatureError, match=r"row 0 of 'm' has the shape \(0, 480"
        ):
            ds.export(kind, tmp_path / kind)


def test_numbers_that_numpy_lacks_are_refused_by_name(tmp_path):
    ds = tl.create(
        "memory://destination-bfloat16", {"x": "bfloat16", "a": tl.Array("bfloat16", (2,))}
    )
    ds.extend({"x": [1], "a": [[1, 2]]})
    ds.commit("one")

    for name in "xa":
        with pytest.raises(tl.UnsupportedFeatureError, match=f"does not support '{name}'"):
            ds.to_numpy(tmp_path / "x.npz", columns=[name])


def test_arrays_of_no_elements_come_back_from_tfrecord(tmp_path):
    ds = tl.create(
        "memory://destination-no-elements", {"x": tl.Array("float32", (0,)), "y": "int64"}
    )
    ds.extend({"x": np.zeros((2, 0)), "y": [1, 2]})
    ds.commit("two")

    ds.to_tfrecord(tmp_path / "out")
    back = tl.ingest.tfrecord(tmp_path / "out", "memory://destination-no-elements-back")

    assert (back.schema["x"], back["x"][:].shape) == (tl.Array("float32", (0,)), (2, 0))


@pytest.fixture
def bucket(request):
    """A store, and the URL of a destination in it."""
    root = f"memory://destination-bucket-{abs(hash(request.node.name))}"
    return open_store(root), f"{root}/exports/out"


async def objects(store) -> dict[str, bytes | None]:
    return {one.path: await store.get(one.path) async for one in store.list("")}


@pytest.mark.parametrize("kind", [*FOLDERS, *FILES])
def test_an_export_in_a_bucket_is_replaced_until_it_has_more(made, tmp_path, bucket, kind):
    store, url = bucket
    export(made, kind, url)
    before = run(objects(store))
    with pytest.raises(tl.InvalidInputError, match="is there already"):
        export(made, kind, url)
    export(made[:1], kind, url, overwrite=True)
    after = run(objects(store))

    export(made[:1], kind, tmp_path / "out")
    here = tree(tmp_path / "out") if kind in FOLDERS else {"": (tmp_path / "out").read_bytes()}
    names = {
        f"exports/out/{name}".rstrip("/")
        for name, content in here.items()
        if content and name != ".tensorlake-export"
    }
    assert after.keys() - {"exports/out.tensorlake-export"} == names
    assert before != after
    if kind in FOLDERS:
        run(store.put("exports/out/notes.md", b"mine"))
        with pytest.raises(tl.InvalidInputError, match=r"has 'notes.md', which the"):
            export(made, kind, url, overwrite=True)
        assert run(objects(store)) == {**after, "exports/out/notes.md": b"mine"}


@pytest.mark.parametrize("kind", ["mds", "parquet"])
@pytest.mark.parametrize("mark", [None, b"", b"[]", b'{"kind": "mds"}', b'{"kind": "zarr"}'])
def test_what_is_in_a_bucket_and_no_export_is_kept(made, bucket, kind, mark):
    store, url = bucket
    run(store.put("exports/out" if kind == "parquet" else "exports/out/index.json", b"{}"))
    if mark is not None:
        run(store.put("exports/out.tensorlake-export", mark))
    before = run(objects(store))

    with pytest.raises(tl.InvalidInputError, match="is not replaced, because"):
        export(made, kind, url, overwrite=True)

    assert run(objects(store)) == before


@pytest.mark.parametrize("kind", ["mds", "csv"])
@pytest.mark.parametrize("below", ["", "/packs/more"])
def test_nothing_is_written_in_a_dataset_of_a_bucket(made, bucket, kind, below):
    store, url = bucket
    tl.create(url, {"x": "int64"}).close()
    before = run(objects(store))

    with pytest.raises(tl.InvalidInputError, match="a dataset, where no export is written"):
        export(made, kind, f"{url}{below}", overwrite=True)

    assert run(objects(store)) == before


@pytest.mark.parametrize("call", ["to_parquet", "to_mds"])
def test_options_that_no_store_has_are_refused_first(made, tmp_path, call):
    for dst in (tmp_path / "out", "memory://destination-options/out"):
        with pytest.raises(tl.InvalidInputError, match="no store knows: 'colour'"):
            getattr(made, call)(dst, storage_options={"colour": "red"})

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_no_store_takes_at_once_is_refused_before_any_is_sent(bucket):
    store, url = bucket

    def write() -> None:
        with new_folder(url, form=FORM, overwrite=False) as folder:
            (folder / "a").write_bytes(b"small")
            with (folder / "b").open("wb") as sparse:
                sparse.truncate(MAX_PUT_NBYTES + 1)

    with pytest.raises(tl.InvalidInputError, match="export fewer rows at a time"):
        write()
    assert run(objects(store)) == {}
