"""Steps that choose a part of each sample, and the decoder that reads it."""

from tensorlake.loader.decode.parts.clips import Clip
from tensorlake.loader.decode.parts.decoder import PartDecoder, PickedParts, known_sample
from tensorlake.loader.decode.parts.patches import RandomPatch, Slice
from tensorlake.loader.decode.parts.points import PointSample
from tensorlake.loader.decode.parts.windows import WINDOW_BITS, WindowPart, starts_of

__all__ = [
    "WINDOW_BITS",
    "Clip",
    "PartDecoder",
    "PickedParts",
    "PointSample",
    "RandomPatch",
    "Slice",
    "WindowPart",
    "known_sample",
    "starts_of",
]
