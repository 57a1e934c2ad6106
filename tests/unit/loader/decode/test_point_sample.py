"""`tl.decode.PointSample`: which points a batch has, and what is read for them."""

import numpy as np
import pytest
import torch

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import parse_steps, step_from_json
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.clouds import as_set, scan
from tests.support.handles import create_on, open_on, wait_for_storage

PointSample = tl.decode.PointSample
SIZES = (3_000, 20_000, 700, 64_000)


@pytest.fixture(scope="module")
def clouds():
    made = create_on(MemoryStore(), {"points": tl.PointCloud(), "size": "int64"})
    made.extend({"points": [scan(n, seed=n) for n in SIZES], "size": SIZES})
    made.commit()
    return made


def test_points_are_of_their_cloud_each_once(clouds):
    loader = clouds.torch(batch_size=4, decode={"points": PointSample(500)})

    (batch,) = loader

    assert batch["points"].shape == (4, 500, 3)
    assert batch["points"].dtype == torch.float32
    for row, points in enumerate(batch["points"].numpy()):
        known = as_set(clouds["points"][row].xyz)
        found = as_set(points)
        assert len(set(found)) == 500
        assert set(found) <= set(known)


def test_other_epochs_choose_others_and_a_state_resumes_exactly(clouds):
    def loader():
        return clouds.torch(batch_size=1, shuffle=True, seed=4, decode={"points": PointSample(64)})

    first, second = loader(), loader()
    whole = [batch["points"] for batch in first]
    other = [batch["points"] for batch in first]
    iterator = iter(second)
    next(iterator)
    resumed = loader()
    resumed.load_state_dict(second.state_dict())

    rest = [batch["points"] for batch in resumed]

    assert not any(torch.equal(one, two) for one in whole for two in other)
    assert all(torch.equal(one, two) for one, two in zip(whole[1:], rest, strict=True))


def test_fields_come_in_their_order_as_float32(clouds):
    step = PointSample(700, fields=("c", "x", "i"))

    batch = next(iter(clouds.loader(batch_size=4, decode={"points": step})))

    whole = np.asarray(clouds["points"][2])
    expected = np.stack([whole[name].astype(np.float32) for name in ("c", "x", "i")], axis=1)
    assert as_set(batch["points"][2]) == as_set(expected)


def test_small_clouds_repeat_points_evenly_or_are_refused(clouds):
    small = clouds.query("WHERE size = 700")

    (batch,) = small.loader(batch_size=1, decode={"points": PointSample(1_500)})

    _, counts = np.unique(batch["points"][0], axis=0, return_counts=True)
    assert sorted(set(counts.tolist())) == [2, 3]
    with pytest.raises(InvalidInputError, match=r"from a cloud of 700\n.*>= 1500"):
        list(small.loader(batch_size=1, decode={"points": PointSample(1_500, short="error")}))


def test_a_cloud_without_points_is_refused_with_its_row():
    made = create_on(MemoryStore(), {"points": tl.PointCloud()})
    made.extend({"points": [scan(5), scan(0)]})
    made.commit()

    with pytest.raises(InvalidInputError, match="row 1 of 'points': PointSample of 3 points"):
        list(made.loader(batch_size=2, decode={"points": PointSample(3)}))


@pytest.mark.parametrize(("level", "share"), [(None, 1 / 64), (1, 1 / 8)])
def test_only_the_levels_needed_are_read(level, share):
    store = CountingStore(MemoryStore())
    made = create_on(store, {"points": tl.PointCloud()})
    made.append({"points": scan(400_000)})
    made.commit()
    wait_for_storage()
    ds = open_on(store)
    nbytes = len(ds["points"].bytes(0))
    loader = open_on(store).loader(batch_size=1, decode={"points": PointSample(4_096, level=level)})
    store.reset()

    (batch,) = loader

    assert batch["points"].shape == (1, 4_096, 3)
    assert store.bytes_read < nbytes * share * 1.2 + 25_000


def test_other_types_and_fields_are_refused():
    named = tl.PointCloud(("x", "y", "z"))
    made = create_on(MemoryStore(), {"points": named, "clip": tl.Audio(), "n": "int64"})

    for decode, message in [
        ({"clip": PointSample(3)}, r"is for tl\.PointCloud, and 'clip' is Audio"),
        ({"points": PointSample(3, fields=("x", "w"))}, "names 'w', which PointCloud"),
        ({"n": PointSample(3)}, "are read whole"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            made.loader(batch_size=1, decode=decode)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PointSample(100_000_000),
        *(lambda: PointSample(0), lambda: PointSample(1.5), lambda: PointSample(3, level=3)),
        *(lambda: PointSample(3, fields="xyz"), lambda: PointSample(3, fields=())),
        *(lambda: PointSample(3, fields=("x", "x")), lambda: PointSample(3, short="drop")),
        lambda: PointSample(3, fields=("x", 1)),
    ],
)
def test_other_arguments_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()


def test_steps_survive_json():
    spec = parse_steps("points", [PointSample(64, fields=("x", "i"), level=1)])

    again = parse_steps("points", [step_from_json(one) for one in spec.to_json()])

    assert again == spec
