"""ColorJitter: Pillow and colorsys are the oracles; torchvision is one in tests/extras/vision."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image as PillowImage
from PIL import ImageEnhance

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import ColorJitter, parse_steps, step_from_json, step_to_json

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)


def one(**only):
    """Apply a step with one factor and nothing random."""
    name, factor = next(iter(only.items()))
    step = ColorJitter(**{name: (factor, factor)})
    return step.apply(PIXELS.copy(), np.random.default_rng(0)).astype(int)


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize(
    ("name", "oracle", "most"),
    [
        ("brightness", ImageEnhance.Brightness, 1),
        ("contrast", ImageEnhance.Contrast, 1),
        ("saturation", ImageEnhance.Color, 2),
    ],
)
def test_factors_do_what_pillow_s_do(name, oracle, most, factor):
    expected = np.asarray(oracle(PillowImage.fromarray(PIXELS)).enhance(factor)).astype(int)

    assert np.abs(one(**{name: factor}) - expected).max() <= most


@pytest.mark.parametrize("shift", [-0.5, -0.1, 0.0, 0.3])
def test_a_shift_turns_the_hue_and_nothing_else(shift):
    expected = [
        colorsys.hsv_to_rgb((h + shift) % 1, s, v)
        for h, s, v in (colorsys.rgb_to_hsv(*(rgb / 255)) for rgb in PIXELS.reshape(-1, 3))
    ]
    found = one(hue=shift).reshape(-1, 3)

    assert np.abs(found - np.array(expected) * 255).max() <= 1


def test_all_images_of_a_clip_change_alike_and_contrast_is_about_the_mean_of_each():
    clip = np.stack([PIXELS, PIXELS // 2])
    step = ColorJitter(0.5, 0.5, 0.5, 0.2)

    made = step.apply(clip, np.random.default_rng(1))

    for image, alone in zip(made, clip, strict=True):
        assert (image == step.apply(alone, np.random.default_rng(1))).all()


def test_grey_images_have_neither_saturation_nor_hue():
    grey = PIXELS[..., :1]

    step = ColorJitter(saturation=0.9, hue=0.5)

    assert (step.apply(grey, np.random.default_rng(1)) == grey).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"brightness": -1},
        {"brightness": (1, 0.5)},
        {"hue": 0.6},
        {"hue": (-0.6, 0)},
        {"contrast": float("nan")},
        {"contrast": "more"},
        {"contrast": 10**400},
        {"saturation": True},
        {"saturation": (1, 2, 3)},
        {"probability": 2},
    ],
)
def test_arguments_out_of_range_are_refused_by_name(arguments):
    with pytest.raises(InvalidInputError, match=rf"ColorJitter: {next(iter(arguments))} is"):
        ColorJitter(**arguments)


def test_a_step_survives_json_and_comes_between_geometry_and_numbers():
    step = ColorJitter(0.4, (0.5, 1.5), hue=0.1)

    assert step_from_json(step_to_json(step)) == step
    with pytest.raises(InvalidInputError, match="put steps that move pixels before"):
        parse_steps("image", [step, tl.decode.Flip()])
    with pytest.raises(InvalidInputError, match="before those that change numbers"):
        parse_steps("image", [tl.decode.ToFloat(), step])


@pytest.fixture(scope="module")
def pictures():
    ds = tl.create("memory://colours", {"image": tl.Image("png"), "deep": tl.Array("uint16", (4,))})
    ds.extend([{"image": PIXELS, "deep": np.arange(4)}] * 6)
    ds.commit("pictures")
    return ds


def test_colours_follow_from_the_place_and_precede_numbers(pictures):
    steps = [ColorJitter(0.5, 0.5, 0.5, 0.2), tl.decode.ToFloat()]

    def epochs(batch_size, workers):
        loader = pictures.loader(
            columns=["image"],
            decode={"image": steps},
            batch_size=batch_size,
            workers=workers,
            shuffle=False,
        )
        return [np.concatenate([batch["image"] for batch in loader]) for _ in range(2)]

    first, second = epochs(6, 1)
    again, _ = epochs(2, 3)

    assert first.dtype == np.float32
    assert (first == again).all()
    assert len({image.tobytes() for image in (*first, *second)}) == 12
    assert np.allclose(first * 255, np.rint(first * 255), atol=1e-4)


def test_colours_of_other_numbers_are_refused_when_the_loader_is_made(pictures):
    with pytest.raises(InvalidInputError, match="is for images"):
        pictures.loader(columns=["deep"], decode={"deep": ColorJitter(0.1)}, batch_size=1)
