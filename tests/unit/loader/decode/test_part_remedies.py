"""Errors of steps that choose a part name the tensor, and steps that take its type."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.clouds import scan
from tests.support.meshes import mesh_file


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
