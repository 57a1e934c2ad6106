"""The golden datasets of release 0.1.0, as they lie in their archive.

``tar -xJf tests/golden/v1_release.tar.xz`` shows them, with what they are to hold as JSON.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

ARCHIVES = Path(__file__).parent


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the datasets of 0.1.0; what changes one copies it first.

    In ``first`` is the same history as the first state of 0.1.0 stored it.
    """
    folder = tmp_path_factory.mktemp("release")
    for name, place in (("v1_release", folder), ("v1_first", folder / "first")):
        with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
            archive.extractall(place, filter="data")
    return folder
