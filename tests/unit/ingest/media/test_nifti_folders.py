"""Folders of NIfTI files, and volumes exported again."""

import gzip
import io
import tarfile
import zipfile

import nibabel
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.niftis import in_our_order, nifti_bytes

VOXELS = np.random.default_rng(0).integers(0, 99, (5, 6, 7), np.int16)
FILES = {
    "a/T1w.nii.gz": nifti_bytes(VOXELS, is_zipped=True),
    "a/T2w.nii": nifti_bytes(VOXELS + 1),
    "b/T1w.nii.gz": nifti_bytes(VOXELS + 2, version=2, order=">", is_zipped=True),
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / "scans" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "scans" / name).write_bytes(content)
    (tmp_path / "scans/notes.gz").write_bytes(gzip.compress(b"notes"))
    return tmp_path / "scans"


@pytest.fixture
def dataset(folder, request):
    pattern = "{subject}/{modality}.nii*"
    return tl.ingest.nifti(folder, f"memory://{request.node.name}", pattern=pattern)


def assert_same_volumes(found, dataset):
    for row in range(3):
        np.testing.assert_array_equal(np.asarray(found[row]), in_our_order(VOXELS + row))
        np.testing.assert_array_equal(found[row].affine, dataset["volume"][row].affine)


def test_a_folder_is_ingested_with_the_fields_of_its_paths(dataset):
    assert dataset["subject"].to_list() == ["a", "a", "b"]
    assert dataset["modality"].to_list() == ["T1w", "T2w", "T1w"]
    assert dataset["volume"].type == tl.Nifti("int16")
    assert_same_volumes(dataset["volume"], dataset)


def test_an_archive_and_a_table_are_ingested(folder, tmp_path, dataset):
    with zipfile.ZipFile(tmp_path / "scans.zip", "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    rows = [{"file": name, "age": age} for age, name in enumerate(FILES)]

    ds = tl.ingest.nifti(tmp_path / "scans.zip", "memory://nifti-zip", table=rows)

    assert ds["age"][:].tolist() == [0, 1, 2]
    assert_same_volumes(ds["volume"], dataset)


def test_files_of_another_dtype_or_cut_are_named_and_may_be_left_out(folder):
    (folder / "c").mkdir()
    (folder / "c/T1w.nii").write_bytes(nifti_bytes(VOXELS.astype(np.float32)))
    (folder / "a/T1w.nii.gz").write_bytes(FILES["a/T1w.nii.gz"][:-9])

    with pytest.raises(InvalidInputError, match=r"T1w\.nii\.gz.*not a whole NIfTI file"):
        tl.ingest.nifti(folder, "memory://nifti-cut")
    kept = tl.ingest.nifti(folder, "memory://nifti-skip", on_error="skip")
    assert len(kept) == 2
    assert kept["volume"].type == tl.Nifti("int16")
    (folder / "a/T1w.nii.gz").unlink()
    with pytest.raises(InvalidInputError, match=r"float32 voxels\nuse tl\.Nifti\('float32'\)"):
        tl.ingest.nifti(folder, "memory://nifti-dtype")
    declared = {"volume": tl.Nifti("float32")}
    assert len(tl.ingest.nifti(folder, "memory://nifti-all", schema=declared)) == 3


def test_half_of_a_pair_is_refused(tmp_path):
    pair = nibabel.Nifti1Pair(VOXELS, np.eye(4))
    pair.to_filename(tmp_path / "scan.hdr")

    with pytest.raises(InvalidInputError, match=r"one of a pair of files\nconvert the pair"):
        tl.ingest.nifti(tmp_path, "memory://nifti-pair")


def test_a_webdataset_has_files_and_comes_back(dataset, tmp_path):
    dataset.to_webdataset(str(tmp_path / "shards"))
    (shard,) = (tmp_path / "shards").glob("*.tar")

    with tarfile.open(shard) as opened:
        names = [name for name in opened.getnames() if name.endswith(".nii")]
        files = [opened.extractfile(name).read() for name in names]
    back = tl.ingest.webdataset(str(shard), "memory://nifti-back")

    assert len(names) == 3
    first = nibabel.Nifti1Image.from_stream(io.BytesIO(files[0]))
    np.testing.assert_array_equal(np.asarray(first.dataobj), VOXELS)
    assert isinstance(back["volume"].type, tl.Nifti)
    assert_same_volumes(back["volume"], dataset)


def test_parquet_and_arrow_bring_volumes_back(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "scans.parquet")

    for back in (
        tl.ingest.parquet(tmp_path / "scans.parquet", "memory://nifti-parquet"),
        tl.ingest.arrow(dataset.to_arrow(), "memory://nifti-arrow"),
    ):
        assert back["volume"].type == tl.Nifti("int16")
        assert_same_volumes(back["volume"], dataset)


def test_mds_and_hugging_face_have_the_bytes(dataset, tmp_path):
    dataset.to_mds(tmp_path / "mds")

    assert any((tmp_path / "mds").iterdir())
    given = dataset.to_hf()
    assert given[0]["volume"] == dataset["volume"].bytes(0)


@pytest.mark.parametrize("count", [1, 5])
def test_files_that_are_cut_do_not_decide_the_dtype_of_the_others(tmp_path, count):
    for at in range(count):
        (tmp_path / f"{at}.nii").write_bytes(nifti_bytes(VOXELS)[:400])
    whole = VOXELS.astype(np.float32) / 3
    (tmp_path / "whole.nii").write_bytes(nifti_bytes(whole))

    ds = tl.ingest.nifti(tmp_path, f"memory://nifti-first-{count}", on_error="skip")

    assert ds["volume"].type == tl.Nifti("float32")
    np.testing.assert_array_equal(np.asarray(ds["volume"][0]), in_our_order(whole))
    assert [one.item for one in ds.ingest_report.skipped] == [f"{at}.nii" for at in range(count)]


def test_without_a_whole_file_there_is_no_dataset(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.nii").write_bytes(nifti_bytes(VOXELS)[:400])

    with pytest.raises(InvalidInputError, match=r"no rows to ingest .*: a\.nii: .*\n.*of 2 items"):
        tl.ingest.nifti(tmp_path, "memory://nifti-none", on_error="skip")

    assert not tl.exists("memory://nifti-none")
