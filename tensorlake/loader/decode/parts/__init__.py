"""Steps that choose a part of each sample, and the decoder that reads it."""

from tensorlake.loader.decode.parts.clips import Clip
from tensorlake.loader.decode.parts.decoder import PartDecoder, PickedParts
from tensorlake.loader.decode.parts.patches import RandomPatch, Slice
from tensorlake.loader.decode.parts.points import PointSample

__all__ = ["Clip", "PartDecoder", "PickedParts", "PointSample", "RandomPatch", "Slice"]
