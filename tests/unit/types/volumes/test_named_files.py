"""Errors of DICOM name the file that is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path


def test_one_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.dcm"
    file.write_bytes(b"not DICOM")

    with pytest.raises(InvalidInputError, match=r"broken\.dcm"):
        tl.Dicom().convert([tl.File(str(file))], tensor="ct")
    with pytest.raises(InvalidInputError, match=r"broken\.dcm"):
        tl.Dicom().convert([str(file)], tensor="ct")


def test_a_damaged_slice_of_a_series_is_named(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"slice{number}.dcm").write_bytes(b"not DICOM")

    with pytest.raises(InvalidInputError, match=r"slice0\.dcm"):
        tl.Dicom().convert([str(tmp_path)], tensor="ct")
    with pytest.raises(InvalidInputError, match=r"slice1\.dcm"):
        tl.Dicom().convert(
            [[tl.File(str(tmp_path / "slice1.dcm")), str(tmp_path / "slice2.dcm")]], tensor="ct"
        )
