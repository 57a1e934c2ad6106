"""Regions: parts of one sample, given by the indices after the row in brackets.

    ds["image"][5, 100:200, 50:80]     pixels of an array
    ds["clip"][5, 3]                   an item of a list; ds["clip"][5, 3, 100:200] a part of it

An array accepts NumPy's indices; for a list the first index is an item or a slice of items, and the
rest is a region of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.quantities import is_whole_number

__all__ = ["Region", "part_of"]

Region = tuple[Any, ...]  # Any: NumPy indices


def part_of(sample: Any, region: Region, refused: Callable[[str], InvalidInputError]) -> Any:
    """Return a part of a sample's public value; for arrays a view.

    Args:
        sample: An array, a list (or a list of arrays), or bytes.
        region: The part, as indices.
        refused: Builds the error for a reason.

    Raises:
        InvalidInputError: The part does not exist.
    """
    if not region:
        return sample
    if isinstance(sample, np.ndarray):
        try:
            return sample[region]
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise refused(f"its shape is {sample.shape}: {error}") from error
    is_list = isinstance(sample, list | bytes) or hasattr(sample, "stack")  # Ragged
    first, *rest = region
    if not is_list or not (is_whole_number(first) or isinstance(first, slice)):
        kind = "an item or a slice of items" if is_list else "it has no parts"
        raise refused(f"{kind}, got {first!r}" if is_list else kind)
    try:
        chosen: Any = sample[first]  # an item, or several
    except IndexError as error:
        raise refused(f"it has {len(sample)} items") from error
    except (TypeError, ValueError) as error:
        raise refused(f"an item or a slice of items: {error}") from error
    if is_whole_number(first) or not rest:
        return part_of(chosen, tuple(rest), refused)
    return [part_of(one, tuple(rest), refused) for one in chosen]
