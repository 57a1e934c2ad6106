"""Golden orders of all plan versions, as docs/reference/plan.md prints them: never to change."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "plan.md"
MASK = (1 << 64) - 1

GOLDEN = {
    # (version, kind, block, window, rows, seed, epoch): the first twelve positions
    (1, "full", 0, 0, 12, 0, 0): [8, 4, 7, 6, 3, 9, 11, 10, 5, 2, 1, 0],
    (1, "full", 0, 0, 12, 0, 1): [3, 8, 7, 11, 10, 6, 5, 9, 1, 2, 4, 0],
    (1, "full", 0, 0, 1000, 7, 0): [711, 459, 496, 135, 648, 98, 797, 326, 338, 698, 449, 801],
    (1, "full", 0, 0, 1000000000000, 18446744073709551615, 5): [
        189173257877,
        313284510270,
        260085510410,
        49190618139,
        878879608724,
        596534939984,
        499173927182,
        651168650368,
        203066614883,
        381859658592,
        62348740982,
        668230767892,
    ],
    (1, "window", 4, 3, 1000, 7, 0): [525, 700, 328, 330, 524, 329, 701, 527, 702, 703, 331, 526],
    (1, "window", 2048, 64, 1000000000, 7, 2): [
        664121636,
        865949512,
        211107543,
        661293941,
        602995479,
        203577966,
        827933838,
        612842105,
        653282131,
        229204143,
        210463033,
        425469079,
    ],
    (2, "full", 0, 0, 12, 0, 0): [4, 0, 11, 6, 10, 5, 7, 3, 9, 2, 8, 1],
    (2, "full", 0, 0, 12, 0, 1): [1, 5, 0, 10, 11, 8, 9, 6, 3, 7, 4, 2],
    (2, "full", 0, 0, 1000, 7, 0): [391, 407, 297, 138, 421, 169, 936, 910, 67, 187, 518, 773],
    (2, "full", 0, 0, 1000000000000, 18446744073709551615, 5): [
        490431606581,
        667697440705,
        961105195189,
        260836114329,
        732446668080,
        389086971620,
        480201669269,
        997934060497,
        553030513941,
        430685627777,
        621010683012,
        89310319118,
    ],
    (2, "window", 4, 3, 1000, 7, 0): [97, 37, 232, 95, 94, 34, 233, 230, 231, 35, 96, 36],
    (2, "window", 2, 1220, 1000000000, 7, 2): [
        307914971,
        609214830,
        570932054,
        616407325,
        546717208,
        567267300,
        513351652,
        790398190,
        168382239,
        659323895,
        801750,
        776288315,
    ],
}


VERSIONS = [1, 2]


def plan_of(version, kind, block, window, rows, seed, epoch):
    order = Order(kind, block, window, version)
    return build_access_plan(PlanKey("any", order, seed, epoch), rows)


def words(
    version: int, purpose: bytes, seed: int, epoch: int, stream: int, count: int
) -> list[int]:
    data = purpose + b"\0" + struct.pack("<QQQ", seed, epoch, stream)
    digest = hashlib.blake2b(data, digest_size=8 * count, person=b"tl-plan-%d" % version).digest()
    return list(struct.unpack(f"<{count}Q", digest))


def tweak_of(number: int) -> int:
    word = ((number + 1) * 0x9E3779B97F4A7C15) & MASK
    word ^= word >> 32
    return (word * 0xD1B54A32D192ED03) & MASK


def permuted(value: int, size: int, keys: list[int], tweak: int = 0) -> int:
    """Follow the reference page, one value at a time in plain integers."""
    bits = max(8, (size - 1).bit_length())
    left_bits, right_bits = bits // 2, bits - bits // 2
    while True:
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for number, key in enumerate(keys):
            source, width = (right, left_bits) if number % 2 == 0 else (left, right_bits)
            z = ((source + key + tweak) * 0x9E3779B97F4A7C15) & MASK
            z ^= z >> 32
            z = (z * 0xD1B54A32D192ED03) & MASK
            if number % 2 == 0:
                left ^= z >> (64 - width)
            else:
                right ^= z >> (64 - width)
        value = left << right_bits | right
        if value < size:
            return value


@pytest.mark.parametrize(("case", "expected"), GOLDEN.items())
def test_order_is_the_golden_one(case, expected):
    plan = plan_of(*case)

    assert plan.positions(0, len(expected)).tolist() == expected
    assert plan.places_of(np.array(expected)).tolist() == list(range(len(expected)))


@pytest.mark.parametrize(("case", "expected"), GOLDEN.items())
def test_reference_page_prints_the_golden_orders(case, expected):
    version, kind, block, window, rows, seed, epoch = case
    sizes = f" {block} | {window} " if kind == "window" else " | "
    numbers = " ".join(map(str, expected))

    line = f"| {version} | {kind} |{sizes}| {rows} | {seed} | {epoch} | {numbers} |"

    assert line in REFERENCE.read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [1, 2, 9, 100, 128, 129, 255, 256, 257, 1000, 5003])
def test_full_order_is_what_the_reference_page_says(rows, version):
    keys = words(version, b"order", 7, 3, 0, 6)

    expected = [permuted(place, rows, keys) for place in range(rows)]

    assert plan_of(version, "full", 0, 0, rows, 7, 3).positions(0, rows).tolist() == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("rows", "block", "window"), [(1, 3, 2), (100, 7, 3), (1000, 16, 4)])
def test_windowed_order_is_what_the_reference_page_says(rows, block, window, version):
    rotation = words(version, b"rotation", 7, 3, 0, 1)[0] % rows
    span = block * window
    expected: list[int] = []
    for place in range(rows):
        number = place // span
        inside = min(span, rows - number * span)
        stream, tweak = (number, 0) if version == 1 else (0, tweak_of(number))
        keys = words(version, b"window", 7, 3, stream, 6)
        shuffled = permuted(place - number * span, inside, keys, tweak)
        slot, offset = divmod(number * span + shuffled, block)
        full_blocks = rows // block
        if slot < full_blocks:
            slot = permuted(slot, full_blocks, words(version, b"blocks", 7, 3, 0, 6))
        expected.append((slot * block + offset + rotation) % rows)

    plan = plan_of(version, "window", block, window, rows, 7, 3)

    assert np.array_equal(plan.positions(0, rows), expected)
