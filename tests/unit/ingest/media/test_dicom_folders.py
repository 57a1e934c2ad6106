"""Folders of DICOM files: a row for each series."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.dicoms import SECRET, dicom_bytes, series_bytes

SAMPLES = Path(__file__).resolve().parents[5] / "shared/data/medical"
VOXELS = np.random.default_rng(0).integers(-900, 900, (6, 7, 8), np.int16)


@pytest.fixture
def folder(tmp_path):
    """Two patients: a series in mixed order, another of other integers, and a film."""
    for at, content in enumerate(reversed(series_bytes(VOXELS))):
        path = tmp_path / f"studies/p1/a/IM{at}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for at, content in enumerate(
        series_bytes((VOXELS + 1000).astype(np.uint16), SeriesInstanceUID="1.2.3")
    ):
        path = tmp_path / f"studies/p2/b/{at}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "studies/p2/film.dcm").write_bytes(dicom_bytes(VOXELS))
    (tmp_path / "studies/README.md").write_text("not DICOM")
    plan = dicom_bytes(VOXELS[0], Rows=None, PixelData=None)
    (tmp_path / "studies/p2/plan.dcm").write_bytes(plan)
    return tmp_path / "studies"


def test_volumes_of_all_series_have_one_dtype(folder, tmp_path):
    ds = tl.ingest.dicom(folder, str(tmp_path / "ds"), headers=("Modality",))

    assert ds.query("SELECT _source")["_source"][:] == [
        "studies/p1/a/IM0",
        "studies/p2/b/0.dcm",
        "studies/p2/film.dcm",
    ]
    assert ds["volume"].type == tl.Dicom(("Modality",), "int32")
    for row, expected in enumerate((VOXELS, VOXELS + 1000, VOXELS)):
        np.testing.assert_array_equal(np.asarray(ds["volume"][row]), expected)
        assert ds["volume"][row].header == {"Modality": "CT"}
    files = [path for path in (tmp_path / "ds").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    again = tl.ingest.dicom(folder, str(tmp_path / "ds"), headers=("Modality",))
    assert (len(again), again.ingest_report.added) == (3, 0)


def test_an_archive_with_a_pattern(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "studies.zip", "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "film.dcm":
                archive.write(path, path.relative_to(folder))

    ds = tl.ingest.dicom(
        tmp_path / "studies.zip",
        "memory://dicom-zip",
        pattern="{patient}/{study}/*",
        schema={"volume": tl.Dicom(rescale=True)},
    )

    assert ds["patient"].to_list() == ["p1", "p2"]
    assert ds["study"].to_list() == ["a", "b"]
    np.testing.assert_array_equal(np.asarray(ds["volume"][0]), VOXELS - np.float32(1024))


def test_a_missing_slice_names_the_series_and_may_be_left_out(folder):
    (folder / "p1/a/IM3").unlink()

    with pytest.raises(InvalidInputError, match=r"p1/a/IM0.*slices are missing"):
        tl.ingest.dicom(folder, "memory://dicom-gap")
    kept = tl.ingest.dicom(folder, "memory://dicom-gap-skip", on_error="skip")
    assert len(kept) == 2


def test_a_damaged_file_and_a_folder_without_series_are_refused(folder, tmp_path):
    (folder / "p1/x.dcm").write_bytes(b"RIFF" + bytes(300))
    (tmp_path / "none").mkdir()
    (tmp_path / "none/README").write_text("nothing")

    with pytest.raises(InvalidInputError, match=r"p1/x\.dcm.*not those of a DICOM file"):
        tl.ingest.dicom(folder, "memory://dicom-damaged")
    with pytest.raises(InvalidInputError, match="no DICOM series"):
        tl.ingest.dicom(tmp_path / "none", "memory://dicom-none")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample data are not here")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_real_files_are_ingested(tmp_path):
    ds = tl.ingest.dicom(SAMPLES, str(tmp_path / "ds"), on_error="skip")

    assert len(ds) >= 5
    assert any("rtplan" in one.item for one in ds.ingest_report.skipped)


def test_a_cut_series_does_not_decide_the_type_of_the_others(tmp_path):
    colours = np.random.default_rng(1).integers(0, 255, (2, 7, 8, 3), np.uint8)
    attributes = {"SamplesPerPixel": 3, "PhotometricInterpretation": "RGB"}
    attributes |= {"PlanarConfiguration": 0, "BitsAllocated": 8, "BitsStored": 8, "HighBit": 7}
    attributes |= {"NumberOfFrames": 2, "Rows": 7, "Columns": 8, "SeriesInstanceUID": "1.2.3"}
    (tmp_path / "b.dcm").write_bytes(dicom_bytes(colours, **attributes))
    (tmp_path / "a.dcm").write_bytes(dicom_bytes(VOXELS)[:-300])

    ds = tl.ingest.dicom(tmp_path, "memory://dicom-cut", on_error="skip")

    assert ds["volume"].type == tl.Dicom(dtype="uint8", ndim=4)
    np.testing.assert_array_equal(np.asarray(ds["volume"][0]), colours)
    assert [one.item for one in ds.ingest_report.skipped] == ["a.dcm"]
