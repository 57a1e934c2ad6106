"""Batch steps: rows of a batch mixed with each other, after all other steps."""

from tensorlake.loader.decode.mixing.blend import CutMix, MixUp
from tensorlake.loader.decode.mixing.mix import BatchMix, MixedRows
from tensorlake.loader.decode.mixing.mosaic import Mosaic

__all__ = ["BatchMix", "CutMix", "MixUp", "MixedRows", "Mosaic"]
