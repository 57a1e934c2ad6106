"""``tl.decode``: steps between a stored sample and its place in the batch.

Built-in steps are fused, seeded by place, and run in threads; a list of steps runs first to last.

>>> [Resize(256), CenterCrop(224, 224)][1]
CenterCrop(height=224, width=224)
"""

from typing import TYPE_CHECKING, Any

from tensorlake.errors import no_such_name
from tensorlake.loader.decode.annotations import Kept, Mover, keep_items, mover_of
from tensorlake.loader.decode.clips import ClipDecoder
from tensorlake.loader.decode.colour import ColorJitter
from tensorlake.loader.decode.geometry import (
    Area,
    CenterCrop,
    Flip,
    Letterbox,
    Placement,
    RandomResizedCrop,
    Resize,
    Rotate90,
)
from tensorlake.loader.decode.image import ImageDecoder, Sample
from tensorlake.loader.decode.mixing import (
    BatchMix,
    CutMix,
    MixedRows,
    MixUp,
    Mosaic,
)
from tensorlake.loader.decode.parts import (
    WINDOW_BITS,
    Clip,
    PartDecoder,
    PickedParts,
    PointSample,
    RandomPatch,
    Slice,
    WindowPart,
    known_sample,
    starts_of,
)
from tensorlake.loader.decode.recipes import imagenet
from tensorlake.loader.decode.sound.steps import AudioChunk, Mel, Resample
from tensorlake.loader.decode.spec import (
    DecodeSpec,
    Turn,
    parse_steps,
    step_from_json,
    step_to_json,
)
from tensorlake.loader.decode.step import (
    BatchStep,
    GeometricStep,
    Known,
    LinearMap,
    PartStep,
    PixelStep,
    Step,
    ValueStep,
)
from tensorlake.loader.decode.values import Cast, Normalize, ToFloat
from tensorlake.types import Resampler, choose_resampler, resampled_by

__all__ = [
    "WINDOW_BITS",
    "Area",
    "AudioChunk",
    "BatchMix",
    "BatchStep",
    "Cast",
    "CenterCrop",
    "Clip",
    "ClipDecoder",
    "ColorJitter",
    "CutMix",
    "DecodeSpec",
    "Flip",
    "GeometricStep",
    "ImageDecoder",
    "Kept",
    "Known",
    "Letterbox",
    "LinearMap",
    "Mel",
    "MixUp",
    "MixedRows",
    "Mosaic",
    "Mover",
    "Normalize",
    "PartDecoder",
    "PartStep",
    "PickedParts",
    "PixelStep",
    "Placement",
    "PointSample",
    "RandomPatch",
    "RandomResizedCrop",
    "Resample",
    "Resampler",
    "Resize",
    "Rotate90",
    "Sample",
    "Slice",
    "Step",
    "ToFloat",
    "Turn",
    "ValueStep",
    "WindowPart",
    "choose_resampler",
    "imagenet",
    "keep_items",
    "known_sample",
    "mover_of",
    "parse_steps",
    "resampled_by",
    "starts_of",
    "step_from_json",
    "step_to_json",
]

_STEPS = (
    *("AudioChunk", "Clip", "ColorJitter", "CutMix", "Mel", "MixUp", "Mosaic", "Resample"),
    *("CenterCrop", "Cast", "Flip", "Letterbox", "Normalize", "PointSample", "RandomPatch"),
    *("RandomResizedCrop", "Resize", "Rotate90", "Slice", "ToFloat", "imagenet"),
)
"""The public names; the others are for internal packages."""

_NEIGHBOURS = {
    **dict.fromkeys(("ToTensor", "PILToTensor", "ConvertImageDtype"), "floats are ToFloat()"),
    **dict.fromkeys(("RandomHorizontalFlip", "HorizontalFlip"), "that is Flip()"),
    **dict.fromkeys(
        ("Boxes",),
        "it comes in a later version\nuse a function of your own: ds.torch(transform=…)",
    ),
    "LetterBox": "did you mean 'Letterbox'?",
}
"""Names of other libraries, and the equivalent here."""


if not TYPE_CHECKING:  # type checkers are to refuse such names, not infer Any

    def __getattr__(name: str) -> Any:
        raise no_such_name("tl.decode", name, _STEPS, _NEIGHBOURS)


def __dir__() -> list[str]:
    return sorted({*_STEPS, "__doc__", "__file__", "__name__"})
