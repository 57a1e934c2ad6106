"""Volumes of NIfTI files: values equal nibabel's, regions read tiles, and texts are left out."""

import gzip
import pickle
from itertools import count
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tensorlake as tl
from tensorlake.errors import DTypeMismatchError, InvalidInputError, SchemaError, ShapeMismatchError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import from_json
from tests.support.examples import examples
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.niftis import in_our_order, nifti_bytes

SAMPLES = Path(__file__).resolve().parents[5] / "shared/data/medical"
PLAIN = [
    *("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]
RGB = np.dtype([(name, np.uint8) for name in "RGB"])
RGBA = np.dtype([(name, np.uint8) for name in "RGBA"])


NUMBERS = count()


def dataset_of(sample, **parameters) -> tl.Dataset:
    ds = tl.create(f"memory://nifti-{next(NUMBERS)}", {"scan": tl.Nifti(**parameters)})
    ds.append({"scan": sample})
    ds.commit()
    return ds


def values_of(shape: tuple[int, ...], dtype: np.dtype | str) -> np.ndarray:
    total = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(0).integers(0, 120, total, np.uint8)  # finite floats
    return raw.view(dtype).reshape(shape)


@st.composite
def files(draw):
    """Draw a file: every dtype of nibabel, either order of bytes, scaled or not, zipped or not."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple))
    dtype = draw(st.sampled_from(PLAIN))
    scaling = draw(
        st.sampled_from([None, (1.0, 0.0), (0.0, 3.0), (2.5, 0.0), (1.0, -7.0), (0.1, 4)])
    )
    return nifti_bytes(
        values_of(shape, dtype),
        version=draw(st.sampled_from([1, 2])),
        order=draw(st.sampled_from("<>")),
        scaling=scaling,
        is_zipped=draw(st.booleans()),
    )


def opened_by_nibabel(content: bytes):
    kind = nibabel.Nifti1Image
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if b"n+2" in content[4:8]:
        kind = nibabel.Nifti2Image
    return kind.from_bytes(content)


@pytest.mark.slow
@given(files(), st.data())
@examples(60)
def test_values_and_affine_are_those_of_nibabel(content, data):
    image = opened_by_nibabel(content)
    expected = in_our_order(np.asarray(image.dataobj))
    volume = dataset_of(content, ndim=image.ndim, tiles=(3,) * image.ndim)["scan"][0]
    region = data.draw(npst.basic_indices(expected.shape, allow_newaxis=True, allow_ellipsis=True))
    region = region if isinstance(region, tuple) else (region,)

    values, part = np.asarray(volume), volume[region]

    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(part, expected[region])
    assert values.dtype == part.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(volume.affine, image.affine)
    zooms = image.header.get_zooms()
    assert volume.zooms == (*reversed(zooms[:3]), *zooms[3:])
    again = opened_by_nibabel(volume.file())
    np.testing.assert_array_equal(np.asarray(again.dataobj), np.asarray(image.dataobj))
    np.testing.assert_array_equal(again.affine, image.affine)


@pytest.mark.parametrize("dtype", [RGB, RGBA])
def test_colours_are_a_last_axis(dtype):
    voxels = values_of((4, 5, 6), dtype)

    volume = dataset_of(nifti_bytes(voxels), ndim=4)["scan"][0]

    colours = np.stack([voxels[name] for name in dtype.names], axis=-1).transpose(2, 1, 0, 3)
    np.testing.assert_array_equal(np.asarray(volume), colours)
    again = np.asarray(opened_by_nibabel(volume.file()).dataobj)
    np.testing.assert_array_equal(again, voxels)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample data are not here")
@pytest.mark.parametrize(
    "name", ["anatomical.nii", "example4d.nii.gz", "example_nifti2.nii.gz", "functional.nii"]
)
@pytest.mark.parametrize("is_image", [False, True])
def test_real_files_are_read_as_by_nibabel(name, is_image):
    image = nibabel.load(SAMPLES / name)

    given_ = image if is_image else SAMPLES / name
    volume = dataset_of(given_, ndim=image.ndim)["scan"][0]

    np.testing.assert_array_equal(np.asarray(volume), in_our_order(np.asarray(image.dataobj)))
    np.testing.assert_array_equal(volume.affine, image.affine)
    assert volume.header.get_data_shape() == image.shape


def test_a_region_reads_its_tiles_only():
    store = CountingStore(MemoryStore())
    rng = np.random.default_rng(0)
    voxels = rng.integers(0, 999, (128, 128, 160), np.int16)
    ds = create_on(store, {"scan": tl.Nifti("int16")})
    ds.append({"scan": {"voxels": voxels, "affine": np.eye(4)}})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    volume = ds["scan"][0]
    lengths = np.diff(volume.map.cuts, prepend=0)
    store.reset()

    part = volume[32:64, 0:64, 40:90]

    np.testing.assert_array_equal(part, voxels[32:64, 0:64, 40:90])
    assert store.bytes_read <= 6 * int(lengths[:-1].max())
    assert store.bytes_read < volume.nbytes / 10


def test_patches_of_a_stream_read_their_tiles():
    store = CountingStore(MemoryStore())
    voxels = np.random.default_rng(0).integers(0, 999, (96, 128, 160), np.int16)
    ds = create_on(store, {"scan": tl.Nifti("float32")})
    ds.extend({"scan": [{"voxels": voxels, "affine": np.eye(4)}] * 2})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    stored = ds["scan"][0].nbytes
    store.reset()

    steps = {"scan": tl.decode.RandomPatch((32, 32, 32), n=1)}
    (batch,) = ds.loader(batch_size=2, decode=steps, seed=1, columns=["scan"])

    assert (batch["scan"].shape, batch["scan"].dtype) == ((2, 32, 32, 32), np.float32)
    assert store.bytes_read < 2 * stored / 5  # 8 of 60 tiles each, and the headers


def test_texts_of_the_header_and_extensions_are_not_stored(tmp_path):
    secret = b"DOE^JANE"
    names = {"descrip": 80, "aux_file": 24, "intent_name": 16, "db_name": 18, "data_type": 10}
    content = nifti_bytes(values_of((3, 4, 5), "int16"), **dict.fromkeys(names, secret))
    image = opened_by_nibabel(content)
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", secret))
    (tmp_path / "1.nii").write_bytes(image.to_bytes())
    assert (tmp_path / "1.nii").read_bytes().count(secret) > len(names)

    ds = tl.create(str(tmp_path / "ds"), {"scan": tl.Nifti()})
    ds.extend({"scan": [tmp_path / "1.nii", image, content]})
    ds.commit()

    files = [path for path in (tmp_path / "ds").rglob("*") if path.is_file()]
    assert files
    assert not any(secret in path.read_bytes() for path in files)
    assert all(secret not in ds["scan"][row].head + ds["scan"][row].file() for row in range(3))


def test_arrays_are_given_in_the_order_in_which_they_are_read():
    voxels = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    affine = np.diag([0.5, 2, 3, 1])

    volume = dataset_of({"voxels": voxels, "affine": affine})["scan"][0]

    np.testing.assert_array_equal(np.asarray(volume), voxels)
    np.testing.assert_array_equal(volume.affine, affine)
    assert volume.zooms == (3, 2, 0.5)
    image = opened_by_nibabel(volume.file())
    np.testing.assert_array_equal(np.asarray(image.dataobj), voxels.transpose(2, 1, 0))


def test_volumes_are_copied_pickled_and_queried():
    given_ = nifti_bytes(values_of((4, 5, 6), "int16"), scaling=(2.0, 1.0))
    ds = dataset_of(given_)
    ds.append({"scan": ds["scan"][0]})
    ds.commit()
    first, second = ds["scan"][0], pickle.loads(pickle.dumps(ds["scan"][1]))

    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))
    assert first.scaling == second.scaling == (2.0, 1.0)
    assert len(ds.query("WHERE SHAPE(scan)[0] = 6")) == 2
    assert ds["scan"].shapes().tolist() == [[6, 5, 4]] * 2
    assert ds.check(full=True, decode=True).ok


def test_values_become_the_declared_dtype():
    scaled = nifti_bytes(values_of((2, 3, 4), "int16"), scaling=(0.5, 0.0))
    expected = in_our_order(np.asarray(opened_by_nibabel(scaled).dataobj))

    values = np.asarray(dataset_of(scaled, dtype="float32")["scan"][0])

    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("stored", "scaling", "declared"),
    [
        ("int32", None, "int16"),
        ("int16", (2.0, 0.0), "int32"),
        ("int32", None, "float32"),
        ("float32", None, "int32"),
        ("complex64", None, "float32"),
        ("int16", None, "uint16"),
    ],
)
def test_values_that_the_declared_dtype_may_not_hold_are_refused(stored, scaling, declared):
    content = nifti_bytes(values_of((2, 3, 4), stored), scaling=scaling)

    with pytest.raises(DTypeMismatchError, match=rf"{stored} voxels.*\nuse tl\.Nifti\("):
        dataset_of(content, dtype=declared)


def test_wrong_samples_and_parameters_name_the_remedy():
    series = nifti_bytes(values_of((2, 3, 4, 5), "int16"))
    cases = [
        (series, ShapeMismatchError, r"use tl\.Nifti\(ndim=4\)"),
        (np.zeros((2, 3, 4)), DTypeMismatchError, r"an array needs its affine"),
        ({"array": 1}, DTypeMismatchError, r"give \{\"voxels\""),
        ({"voxels": np.zeros((2, 3, 4)), "affine": np.eye(3)}, ShapeMismatchError, "np.eye"),
        ({"voxels": np.zeros((3, 4)), "affine": np.eye(4)}, ShapeMismatchError, "3 axes"),
        (
            {"voxels": np.zeros((2, 3, 4), np.float16), "affine": np.eye(4)},
            DTypeMismatchError,
            "cast it to float32",
        ),
        (7, DTypeMismatchError, "expects a NIfTI file"),
    ]
    for sample, error, message in cases:
        with pytest.raises(error, match=message):
            dataset_of(sample)
    for parameters in ({"ndim": 0}, {"tiles": (32, 32)}, {"dtype": "text"}, {"tiles": 3}):
        with pytest.raises(SchemaError):
            tl.Nifti(**parameters)
    with pytest.raises(InvalidInputError, match="no such region"):
        dataset_of(nifti_bytes(values_of((2, 3, 4), "int16")))["scan"][0][9]


def test_a_type_is_its_json():
    for kind in (tl.Nifti(), tl.Nifti("int16", ndim=4, tiles=(8, 8, 8, 1), nullable=True)):
        assert from_json(kind.to_json()) == kind


@pytest.mark.parametrize(
    ("change", "is_refused"),
    [
        (np.eye(4), False),
        (np.eye(4, dtype=np.float32) * 1.00001, False),
        (np.diag([-1, -1, 1, 1]), True),
        (np.diag([1, 1, 1.01, 1]), True),
        (np.eye(4) + np.eye(4, k=3) * 0.5, True),
    ],
)
def test_a_volume_of_another_lies_where_that_lies(change, is_refused):
    name = f"memory://nifti-places-{np.asarray(change).tobytes().hex()[:120]}-{is_refused}"
    ds = tl.create(f"{name}-{hash(str(change))}", {"ct": tl.Nifti(), "pet": tl.Nifti(of="ct")})
    affine = np.array([[0.8, 0, 0, -90], [0, 0.8, 0.1, 20], [0, -0.1, 2.5, 7], [0, 0, 0, 1]])
    voxels = np.zeros((20, 30, 40), np.int16)
    ct = {"voxels": voxels, "affine": affine}
    rows = [{"ct": ct, "pet": ct}, {"ct": ct, "pet": {"voxels": voxels, "affine": affine @ change}}]

    if is_refused:
        with pytest.raises(tl.InvalidInputError, match=r"row 1 of extend.*affine of 'pet'.*'ct'"):
            ds.extend(rows)
    else:
        ds.extend(rows)
    ds.discard()
