"""Volumes of DICOM series: values equal pydicom's, slices are sorted, no patient is named."""

import pickle
from itertools import count
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import DTypeMismatchError, InvalidInputError, SchemaError, ShapeMismatchError
from tensorlake.types import from_json
from tests.support.dicoms import SECRET, dicom_bytes, series_bytes
from tests.support.examples import examples

SAMPLES = Path(__file__).resolve().parents[5] / "shared/data/medical"
NUMBERS = count()
VOXELS = np.random.default_rng(0).integers(-900, 900, (6, 7, 8), np.int16)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # pydicom's, of odd files


def dataset_of(sample, **parameters) -> tl.Dataset:
    ds = tl.create(f"memory://dicom-{next(NUMBERS)}", {"ct": tl.Dicom(**parameters)})
    ds.append({"ct": sample})
    ds.commit()
    return ds


@given(st.permutations(range(6)))
@examples(8)
def test_slices_are_sorted_along_their_normal(order):
    files = series_bytes(VOXELS)

    volume = dataset_of([files[at] for at in order])["ct"][0]

    np.testing.assert_array_equal(np.asarray(volume), VOXELS)
    assert volume.spacing == (3.0, 0.5, 0.75)
    assert volume.position == (-10, -20, 5)
    assert volume.orientation == (1, 0, 0, 0, 1, 0)
    np.testing.assert_allclose(volume.affine @ [2, 1, 4, 1], [-10 + 1.5, -20 + 0.5, 5 + 12, 1])


def test_oblique_slices_are_sorted_by_their_normal_not_by_z():
    turned = [0, 1, 0, 0, 0, -1]  # the normal is −x
    files = [
        dicom_bytes(
            plane, ImageOrientationPatient=turned, ImagePositionPatient=[-2 * at, 0, at % 2]
        )
        for at, plane in enumerate(VOXELS)
    ]

    volume = dataset_of(files[::-1])["ct"][0]

    np.testing.assert_array_equal(np.asarray(volume), VOXELS)
    assert volume.spacing[0] == 2.0


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample data are not here")
@pytest.mark.parametrize(
    "name",
    [
        *("0.dcm", "CT_small.dcm", "J2K_pixelrep_mismatch.dcm", "JPEG2000.dcm", "MR_small.dcm"),
        *("MR_small_RLE.dcm", "examples_overlay.dcm", "rtdose.dcm", "ExplVR_BigEnd.dcm"),
    ],
)
def test_real_files_are_read_as_by_pydicom(name):
    file = pydicom.dcmread(SAMPLES / name)
    expected = pydicom.pixels.pixel_array(file)
    is_coloured = expected.shape[-1] == 3
    expected = expected.reshape(-1, file.Rows, file.Columns, *([3] if is_coloured else []))

    volume = dataset_of(SAMPLES / name, ndim=expected.ndim)["ct"][0]

    bits = (1 << file.BitsStored) - 1
    unset = expected if file.PixelRepresentation else expected & bits  # of an overlay
    np.testing.assert_array_equal(np.asarray(volume), unset)
    assert np.asarray(volume).dtype == expected.dtype
    if "PixelSpacing" in file:
        assert volume.spacing[1:] == tuple(map(float, file.PixelSpacing))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample data are not here")
def test_files_that_cannot_be_read_name_the_reason():
    with pytest.raises(InvalidInputError, match="it has no pixels"):
        dataset_of(SAMPLES / "rtplan.dcm")
    with pytest.raises(InvalidInputError, match=r"JPEG Extended.*cannot be decoded"):
        dataset_of(SAMPLES / "JPEG-lossy.dcm")


def test_hounsfield_units_are_scaled_by_each_slice():
    files = [
        dicom_bytes(
            plane, ImagePositionPatient=[0, 0, at], RescaleSlope=1 + at / 2, RescaleIntercept=-at
        )
        for at, plane in enumerate(VOXELS)
    ]
    slopes, starts = 1 + np.arange(6) / 2, -np.arange(6)
    expected = (VOXELS * slopes[:, None, None] + starts[:, None, None]).astype(np.float32)

    scaled = dataset_of(files, rescale=True)["ct"]
    raw = dataset_of(files)["ct"][0]

    np.testing.assert_array_equal(np.asarray(scaled[0]), expected)
    np.testing.assert_array_equal(scaled[0][::-2, 3, 1:4], expected[::-2, 3, 1:4])
    assert scaled[0][2, 3, 4] == expected[2, 3, 4]
    np.testing.assert_array_equal(np.asarray(raw), VOXELS)
    assert raw.rescale[0].tolist() == slopes.tolist()


def test_no_attribute_is_stored_but_those_that_are_named(tmp_path):
    (tmp_path / "series").mkdir()
    for at, content in enumerate(series_bytes(VOXELS)):
        assert content.count(SECRET.encode()) == 4
        (tmp_path / f"series/{at}.dcm").write_bytes(content)

    ds = tl.create(str(tmp_path / "ds"), {"ct": tl.Dicom(headers=("Modality", "PatientAge"))})
    ds.append({"ct": tmp_path / "series"})
    ds.commit()

    files = [path for path in (tmp_path / "ds").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    assert ds["ct"][0].header == {"Modality": "CT"}
    named = dataset_of(tmp_path / "series", headers=("PatientName", "PixelSpacing"))
    assert named["ct"][0].header == {"PatientName": SECRET, "PixelSpacing": [0.5, 0.75]}


def test_frames_of_one_file_are_slices():
    film = dicom_bytes(VOXELS, is_packed=True, ImagePositionPatient=None, PixelSpacing=None)

    volume = dataset_of(film)["ct"][0]

    np.testing.assert_array_equal(np.asarray(volume), VOXELS)
    assert np.isnan(volume.spacing[1])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([*series_bytes(VOXELS)[:2], *series_bytes(VOXELS)[3:]], "slices are missing"),
        ([*series_bytes(VOXELS), series_bytes(VOXELS)[0]], "slices are missing, or there twice"),
        (series_bytes(VOXELS, step=0), "at one position"),
        (
            [*series_bytes(VOXELS)[:5], *series_bytes(VOXELS, SeriesInstanceUID="1.2.3")[5:]],
            "2 series",
        ),
        ([*series_bytes(VOXELS), *series_bytes(VOXELS[:1, :5])], "different sizes"),
        (
            [*series_bytes(VOXELS)[:5], *series_bytes(VOXELS, PixelSpacing=[1, 1])[5:]],
            "different spacings",
        ),
        (
            [
                *series_bytes(VOXELS)[:5],
                *series_bytes(VOXELS, ImageOrientationPatient=[0, 1, 0, 0, 0, 1])[5:],
            ],
            "different orientations",
        ),
        (series_bytes(VOXELS, ImageOrientationPatient=None), "no position"),
        ([series_bytes(VOXELS)[0][:-100]], "cannot be decoded|cut|no pixels"),
        ([series_bytes(VOXELS)[0][:300]], "no pixels|cut|damaged"),
        ([b"RIFF" + bytes(300)], "first bytes are not those of a DICOM"),
        ([dicom_bytes(VOXELS[0], Rows=60_000, Columns=60_000)], "promise 7.2 GB of voxels"),
        ([dicom_bytes(VOXELS[0], NumberOfFrames=2_000_000_000)], "frames; 1 to"),
        (
            [series_bytes(VOXELS)[0].replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99")],
            "compressed as a whole",
        ),
    ],
    ids=range(14),
)
def test_files_that_are_not_a_volume_are_refused(files, message):
    with pytest.raises(InvalidInputError, match=message):
        dataset_of(files)


@given(st.integers(132, 1200), st.integers(1, 255))
@examples(40)
def test_a_changed_byte_is_an_error_of_one_kind_or_another_volume(at, change):
    content = bytearray(dicom_bytes(VOXELS[0], ImagePositionPatient=[0, 0, 0]))
    content[min(at, len(content) - 1)] ^= change
    try:
        dataset_of(bytes(content))
    except InvalidInputError:
        return


def test_wrong_declarations_name_the_remedy():
    files = series_bytes(VOXELS)
    for parameters, error, message in (
        ({"dtype": "uint16"}, DTypeMismatchError, r"use tl\.Dicom\(dtype='int16'\)"),
        ({"ndim": 4}, ShapeMismatchError, r"use tl\.Dicom\(ndim=3\)"),
        ({"headers": ("Modalty",)}, InvalidInputError, "'Modalty' is not a keyword"),
        ({"headers": ("SOPInstanceUID",)}, InvalidInputError, "slices differ in SOPInstanceUID"),
        ({"headers": ("PixelData",)}, InvalidInputError, "leave it out|differ"),
    ):
        with pytest.raises(error, match=message):
            dataset_of(files, **parameters)
    for parameters in ({"headers": "Modality x"}, {"ndim": 2}, {"rescale": True, "dtype": "int16"}):
        with pytest.raises(SchemaError):
            tl.Dicom(**parameters)
    with pytest.raises(DTypeMismatchError, match="files of one DICOM series"):
        dataset_of(7)


def test_volumes_are_copied_streamed_and_described():
    ds = dataset_of(series_bytes(VOXELS), dtype="float32", tiles=(2, 4, 4))
    ds.append({"ct": ds["ct"][0]})
    ds.append({"ct": ds["ct"].bytes(0)})
    ds.commit()

    for row in range(3):
        again = pickle.loads(pickle.dumps(ds["ct"][row]))
        np.testing.assert_array_equal(np.asarray(again), VOXELS)
        assert again.spacing == (3.0, 0.5, 0.75)
    steps = {"ct": tl.decode.RandomPatch((4, 4, 4))}
    (batch,) = ds.loader(batch_size=3, decode=steps, columns=["ct"])
    assert (batch["ct"].shape, batch["ct"].dtype) == ((3, 4, 4, 4), np.float32)
    kind = tl.Dicom(("Modality",), rescale=True, nullable=True)
    assert from_json(kind.to_json()) == kind
    assert len(ds.query("WHERE SHAPE(ct)[0] = 6")) == 3


def test_a_number_of_the_wrong_length_is_refused_and_skipped(tmp_path):
    good = dicom_bytes(VOXELS[0], ImagePositionPatient=[0, 0, 0])
    bad = good.replace(b"\x28\x00\x10\x00US", b"\x28\x00\x10\x00UL")  # two bytes of four
    assert bad != good
    with pytest.raises(InvalidInputError, match="damaged"):
        dataset_of(bad)

    other = dicom_bytes(VOXELS[0], ImagePositionPatient=[0, 0, 0], SeriesInstanceUID="1.2.3")
    (tmp_path / "good.dcm").write_bytes(other)
    (tmp_path / "bad.dcm").write_bytes(bad)
    ds = tl.ingest.dicom(tmp_path, "memory://dicom-bad", on_error="skip")
    assert len(ds) == 1
    (skipped,) = ds.ingest_report.skipped
    assert "bad.dcm" in skipped.item + skipped.reason
