"""Steps that choose a part of each sample, and the decoder that reads it."""

from tensorlake.loader.decode.parts.clips import Clip
from tensorlake.loader.decode.parts.decoder import PartDecoder, PickedParts
from tensorlake.loader.decode.parts.patches import RandomPatch, Slice

__all__ = ["Clip", "PartDecoder", "PickedParts", "RandomPatch", "Slice"]
