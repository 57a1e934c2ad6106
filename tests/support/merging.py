"""What tests of merges share: the classes of rows by name, and conflicts that no side settles."""

from __future__ import annotations

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError


def labels(ds: Dataset) -> list[str]:
    """Name the class of each row of the tensor ``label``."""
    return [ds["label"].names[code] for code in ds["label"][:]]


def check_nobody_can_be_preferred(ds: Dataset, branch: str, why: str) -> None:
    """Assert that a branch conflicts, and still does when one of both sides is preferred."""
    for how in ("error", "ours", "theirs"):
        with pytest.raises(ConflictError, match=why):
            ds.merge(branch, on_conflict=how)
