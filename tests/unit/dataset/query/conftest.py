"""The dataset that tests of queries and statements share."""

import datetime as dt

import numpy as np
import pytest

import tensorlake as tl


@pytest.fixture
def ds(request):
    """Ten committed rows."""
    made = tl.create(
        f"memory://queries-{request.node.name}",
        {
            "x": "int64",
            "label": tl.ClassLabel(["cat", "dog"]),
            "text": tl.Text(nullable=True),
            "sizes": tl.Array("float32", (None,)),
            "image": tl.Image("png"),
            "taken": tl.Timestamp("ms"),
        },
    )
    made.extend(
        {
            "x": np.arange(10),
            "label": [n % 2 for n in range(10)],
            "text": [None if n == 3 else f"word {n}" for n in range(10)],
            "sizes": [np.arange(n % 3, dtype=np.float32) for n in range(10)],
            "image": [np.full((4, 5, 3), n, np.uint8) for n in range(10)],
            "taken": [dt.datetime(2026, 1, 1) + dt.timedelta(days=n) for n in range(10)],  # noqa: DTZ001 the type has no zone
        }
    )
    made.commit("ten rows")
    return made
