"""A dataset made of a view's rows."""

import numpy as np
import pytest

import tensorlake as tl


@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 5, 6), (4,), ()])
def test_computed_columns_alone_become_tensors_of_any_shapes(lengths):
    masks = [np.ones((length, 3), np.uint8) for length in lengths]
    ds = tl.create(f"memory://masks-of-{lengths}", {"m": tl.SegmentMask(["road", "car"])})
    ds.extend({"m": masks})
    ds.commit()

    made = ds.query("SELECT m AS q").materialize(f"memory://made-of-{lengths}")

    assert [one.tolist() for one in made["q"].read()] == [mask.tolist() for mask in masks]
