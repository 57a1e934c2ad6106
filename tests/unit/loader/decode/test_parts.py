"""Steps that choose a part of each sample: only it is fetched, and resuming gives the same.

Their errors name the tensor, and steps that take its type.
"""

import uuid
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import CountingStore
from tests.support.clouds import scan
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.meshes import mesh_file

PATCH = tl.decode.RandomPatch((48, 32))


def scans(count: int, shape=(400, 300)) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 60_000, shape, np.uint16) for _ in range(count)]


def filled(store, arrays, **more):
    kind = tl.Array("uint16", (None, None), tiles=(32, 32), **more)
    ds = create_on(store, {"scan": kind, "y": "int64"})
    ds.extend({"scan": arrays, "y": range(len(arrays))})
    ds.commit()
    wait_for_storage()
    return open_on(store)


def is_in(patch: np.ndarray, scan: np.ndarray) -> bool:
    for at in np.argwhere(scan == patch.flat[0]).tolist():
        box = scan[at[0] : at[0] + patch.shape[0], at[1] : at[1] + patch.shape[1]]
        if np.array_equal(box, patch):
            return True
    return False


@pytest.mark.parametrize("workers", [0, 2])
def test_patches_are_of_their_scans_and_fetched_alone(workers):
    arrays, store = scans(8), CountingStore(MemoryStore())
    ds = filled(store, arrays)
    store.reset()

    batches = list(ds.loader(batch_size=4, shuffle=True, seed=5, decode={"scan": PATCH}))

    for batch in batches:
        assert batch["scan"].shape == (4, 48, 32)
        assert batch["scan"].dtype == np.uint16
        for patch, y in zip(batch["scan"], batch["y"], strict=True):
            assert is_in(patch, arrays[y])
    tiles = 3 * 3  # at most, over each patch
    assert store.bytes_read < 8 * (tiles * 32 * 32 * 2 + 4_000)
    assert store.bytes_read < sum(one.nbytes for one in arrays) / 3


def test_an_epoch_resumes_with_the_same_patches():
    ds = filled(MemoryStore(), scans(9))
    arguments = {"batch_size": 2, "shuffle": True, "seed": 1, "decode": {"scan": PATCH}}
    expected = [batch["scan"] for batch in ds.loader(**arguments)]

    loader = ds.loader(**arguments)
    iterator = iter(loader)
    taken = [next(iterator)["scan"] for _ in range(2)]
    rest = ds.loader(**arguments)
    rest.load_state_dict(loader.state_dict())
    taken += [batch["scan"] for batch in rest]

    assert len(taken) == len(expected)
    assert all(map(np.array_equal, taken, expected))


def test_another_epoch_has_other_patches():
    ds = filled(MemoryStore(), scans(3))
    loader = ds.loader(batch_size=3, seed=1, decode={"scan": PATCH})

    first, second = (next(iter(loader))["scan"] for _ in range(2))

    assert not np.array_equal(first, second)


def test_several_patches_are_stacked_and_numbers_mapped():
    steps = [tl.decode.RandomPatch((16, 16), n=3), tl.decode.ToFloat()]
    (batch,) = filled(MemoryStore(), scans(2)).loader(batch_size=2, decode={"scan": steps})

    assert batch["scan"].shape == (2, 3, 16, 16)
    assert batch["scan"].dtype == np.float32


def test_slices_and_whole_samples():
    arrays = scans(3)
    ds = filled(MemoryStore(), arrays)

    (slices,) = ds.loader(
        batch_size=3, decode={"scan": tl.decode.Slice(1)}, collate={"scan": "list"}
    )
    (whole,) = ds.loader(batch_size=3, collate={"scan": "list"})

    for one, volume, all_of_it in zip(slices["scan"], arrays, whole["scan"], strict=True):
        assert (one == volume.T).all(axis=1).any()
        np.testing.assert_array_equal(all_of_it, volume)


def test_local_datasets_read_patches_too(tmp_path):
    arrays = scans(4)
    ds = tl.create(tmp_path / "ds", {"scan": tl.Array("uint16", (400, 300), tiles=(32, 32))})
    ds.extend({"scan": arrays})
    ds.commit()

    (batch,) = ds.loader(batch_size=4, decode={"scan": PATCH})

    assert all(is_in(patch, scan) for patch, scan in zip(batch["scan"], arrays, strict=True))


def test_a_mix_reads_patches_of_all_sources():
    ds = [filled(MemoryStore(), scans(4)), filled(MemoryStore(), scans(4))]
    mixed = tl.mix({"a": (ds[0], 1), "b": (ds[1], 1)})

    batch = next(iter(mixed.loader(batch_size=4, seed=0, decode={"scan": PATCH})))

    assert all(any(is_in(patch, scan) for scan in scans(4)) for patch in batch["scan"])


def test_nulls_are_refused_or_replaced():
    ds = filled(MemoryStore(), [*scans(2), None], nullable=True)

    with pytest.raises(InvalidInputError, match="NULL"):
        next(iter(ds.loader(batch_size=3, decode={"scan": PATCH})))
    null = {"scan": np.zeros((48, 32), np.uint16)}
    (batch,) = ds.loader(batch_size=3, decode={"scan": PATCH}, null=null)
    assert not batch["scan"][2].any()
    assert batch["scan"][:2].any()


async def damage(store, content: bytes) -> None:
    for path in [one.path async for one in store.list("packs/")]:
        data = bytearray(await store.get(path) or b"")
        at = data.find(content)
        if at >= 0:
            data[at + 20] ^= 1
            await store.delete(path)
            await store.put(path, bytes(data))


def test_rows_whose_parts_are_damaged_are_skipped():
    store = MemoryStore()
    ds = filled(store, scans(3, (32, 32)))
    run(damage(store, ds["scan"].bytes(1)[:200]))
    ds = open_on(store)
    arguments = {"batch_size": 3, "decode": {"scan": tl.decode.RandomPatch((32, 32))}}

    with pytest.raises(CorruptionError, match="part 0"):
        next(iter(ds.loader(**arguments)))
    (batch,) = ds.loader(**arguments, on_error="skip")
    assert batch["y"].tolist() == [0, 2]
    np.testing.assert_array_equal(batch["scan"], [scans(3, (32, 32))[at] for at in (0, 2)])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (tl.decode.RandomPatch((8, 8, 8)), "does not fit"),
        (tl.decode.Slice(2), "axis"),
        ([tl.decode.ToFloat(), tl.decode.Slice(0)], "first"),
        (tl.decode.Flip(), "chooses the part"),
    ],
)
def test_steps_that_do_not_fit_are_refused(steps, message):
    ds = filled(MemoryStore(), scans(1))

    with pytest.raises(InvalidInputError, match=message):
        ds.loader(batch_size=1, decode={"scan": steps})


def test_a_sample_smaller_than_its_patch_names_the_row():
    ds = filled(MemoryStore(), [*scans(1), np.zeros((40, 40), np.uint16)])

    with pytest.raises(InvalidInputError, match=r"row 1 of 'scan'.*does not fit"):
        list(ds.loader(batch_size=2, decode={"scan": PATCH}))


@pytest.mark.parametrize("size", [(), (0, 3), (2.5,), ("a",)])
def test_the_size_of_a_patch_is_checked(size):
    with pytest.raises(InvalidInputError, match="RandomPatch"):
        tl.decode.RandomPatch(size)


def of(kind: Any, sample: Any) -> Any:
    made = tl.create(f"memory://{uuid.uuid4()}", {"my own": kind})
    made.append({"my own": sample})
    made.commit("a row")
    return made


def test_the_query_of_short_samples_names_the_tensor_and_works() -> None:
    made = of(tl.PointCloud(), scan(30))
    steps = {"my own": tl.decode.PointSample(40, short="error")}

    with pytest.raises(InvalidInputError) as caught:
        next(iter(made.loader(batch_size=1, decode=steps)))

    query = str(caught.value).split("ds.query('")[1].split("')")[0]
    assert query == 'WHERE SHAPE("my own")[0] >= 40'
    assert len(made.query(query)) == 0
    assert len(made.query(query.replace("40", "30"))) == 1


def test_steps_that_choose_no_part_are_refused_with_one_for_the_type() -> None:
    cloud, mesh = of(tl.PointCloud(), scan(30)), of(tl.Mesh(), mesh_file("ply"))

    with pytest.raises(InvalidInputError, match="PointSample"):
        cloud.loader(batch_size=1, decode={"my own": []})
    with pytest.raises(InvalidInputError, match="no step takes meshes"):
        mesh.loader(batch_size=1, decode={"my own": []})
    with pytest.raises(InvalidInputError, match="no step takes meshes"):
        mesh.loader(batch_size=1, decode={"my own": [tl.decode.Resize(8, 8)]})


def test_volumes_of_several_dtypes_are_to_be_declared_as_their_own_type() -> None:
    volume = {"voxels": np.zeros((4, 4, 4), np.int16), "affine": np.eye(4)}

    with pytest.raises(InvalidInputError, match=r"declare one: tl.Nifti\('float32'\)"):
        of(tl.Nifti(), volume).loader(
            batch_size=1, decode={"my own": tl.decode.RandomPatch((2, 2, 2))}
        )
    made = tl.create(f"memory://{uuid.uuid4()}", {"ct": tl.Dicom()})
    with pytest.raises(InvalidInputError, match=r"declare one: tl.Dicom\(dtype='float32'\)"):
        made.loader(batch_size=1, decode={"ct": tl.decode.RandomPatch((2, 2, 2))})
