"""A type is printed as it would be written."""

import pytest

import tensorlake as tl


@pytest.mark.parametrize(
    "sample_type",
    [
        tl.Array("float32", (None, 4)),
        tl.Array("bfloat16", (3,), nullable=True),
        tl.Scalar("int8", default=3),
        tl.ClassLabel(["cat", "dog"], per="boxes"),
        tl.BBox("xywh", of="image"),
        tl.BBox(of="image"),
        tl.Image("png", mode="L"),
        tl.Embedding(8, metric="l2", dtype="float16"),
        tl.Json(default={"a": 1}),
        tl.Timestamp("s", tz="UTC"),
        tl.Sequence(tl.Image("webp")),
        tl.Keypoints(["nose", "tail"], [(0, 1)], of="image"),
        tl.BinaryMask(of="image"),
        tl.Tags(),
    ],
    ids=repr,
)
def test_what_is_printed_of_a_type_makes_an_equal_one(sample_type):
    assert eval(repr(sample_type), vars(tl)) == sample_type


def test_what_is_as_it_always_is_is_not_printed():
    assert repr(tl.Array("float32", (None, 4))) == "Array('float32', (None, 4))"
    assert repr(tl.ClassLabel(["a", "b"], multi=True)) == "ClassLabel(('a', 'b'), multi=True)"
    assert repr(tl.Text()) == "Text()"


def test_a_thousand_classes_are_cut():
    printed = repr(tl.ClassLabel([f"class {code}" for code in range(1000)]))

    assert printed.endswith("… 988 more))")
