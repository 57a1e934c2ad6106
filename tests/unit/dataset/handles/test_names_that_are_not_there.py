"""Names that modules of ours have not: the nearest one, or our word for it, is told."""

import pytest

import tensorlake as tl


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        (tl, "Imgae", r"module 'tensorlake' has no 'Imgae'; did you mean 'Image'\?"),
        (tl, "load_dataset", r"datasets open by tl\.open\(url\)"),
        (tl.ingest, "image", r"tl\.ingest has no 'image'; did you mean 'images'\?"),
        (tl.ingest, "tfds", r"TensorFlow's records are tfrecord\(\)"),
        (tl.ingest, "ffcv", r"or a torch dataset: tl\.ingest\.torch"),
        (tl.ingest, "pack", r"ds\.torch\(collate=…\)$"),
        (tl.decode, "Boxes", r"use a function of your own: ds\.torch\(transform=…\)$"),
        (tl.ingest, "ffcv", r"tl\.ingest has no 'ffcv'; not available before a later version"),
        (tl.decode, "Boxes", r"tl\.decode has no 'Boxes'; it comes in a later version"),
        (tl.ingest, "imagefolder", r"image folders are images\(\)"),
        (tl.decode, "Resiz", r"tl\.decode has no 'Resiz'; did you mean 'Resize'\?"),
        (tl.decode, "ToTensor", r"floats are ToFloat\(\)"),
        (tl.decode, "qqqq", r"^tl\.decode has no 'qqqq'$"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_ours(module, name, told):
    with pytest.raises(AttributeError, match=told) as refused:
        getattr(module, name)
    assert refused.value.name == name


def test_private_names_are_asked_for_without_a_hint():
    assert not hasattr(tl.ingest, "__wrapped__")
    assert not hasattr(tl.decode, "_resize")
