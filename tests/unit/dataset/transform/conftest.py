"""The source of the copies that tests of ``refresh_copy`` make."""

from __future__ import annotations

import pytest

import tensorlake as tl


@pytest.fixture
def url(request):
    return f"memory://{request.node.name}"


@pytest.fixture
def source(url):
    ds = tl.create(
        f"{url}-source",
        {"x": "int64", "y": "int64", "label": tl.ClassLabel(["cat", "dog"], nullable=True)},
    )
    ds.extend({"x": [0, 1, 2, 3], "y": [0, 10, 20, 30], "label": ["cat", "dog", "cat", None]})
    ds.commit("four")
    return ds
