"""Golden orders of plan version 1, as docs/reference/plan.md prints them: never to change."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from tensorlake.loader.plan.plan import Order, PlanKey, build_access_plan

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "plan.md"
MASK = (1 << 64) - 1

GOLDEN = {
    # (kind, block, window, rows, seed, epoch): the first twelve positions
    ("full", 0, 0, 12, 0, 0): [8, 4, 7, 6, 3, 9, 11, 10, 5, 2, 1, 0],
    ("full", 0, 0, 12, 0, 1): [3, 8, 7, 11, 10, 6, 5, 9, 1, 2, 4, 0],
    ("full", 0, 0, 1000, 7, 0): [711, 459, 496, 135, 648, 98, 797, 326, 338, 698, 449, 801],
    ("full", 0, 0, 1000000000000, 18446744073709551615, 5): [
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
    ("window", 4, 3, 1000, 7, 0): [525, 700, 328, 330, 524, 329, 701, 527, 702, 703, 331, 526],
    ("window", 2048, 64, 1000000000, 7, 2): [
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
}


def order_of(kind: str, block: int, window: int) -> Order:
    return Order("window", block, window) if kind == "window" else Order("full")


def words(purpose: bytes, seed: int, epoch: int, stream: int, count: int) -> list[int]:
    data = purpose + b"\0" + struct.pack("<QQQ", seed, epoch, stream)
    digest = hashlib.blake2b(data, digest_size=8 * count, person=b"tl-plan-1").digest()
    return list(struct.unpack(f"<{count}Q", digest))


def permuted(value: int, size: int, keys: list[int]) -> int:
    """Follow the reference page, one value at a time in plain integers."""
    bits = max(8, (size - 1).bit_length())
    left_bits, right_bits = bits // 2, bits - bits // 2
    while True:
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for number, key in enumerate(keys):
            source, width = (right, left_bits) if number % 2 == 0 else (left, right_bits)
            z = ((source + key) * 0x9E3779B97F4A7C15) & MASK
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
    kind, block, window, rows, seed, epoch = case
    plan = build_access_plan(PlanKey("any", order_of(kind, block, window), seed, epoch), rows)

    assert plan.positions(0, len(expected)).tolist() == expected


@pytest.mark.parametrize(("case", "expected"), GOLDEN.items())
def test_reference_page_prints_the_golden_orders(case, expected):
    kind, block, window, rows, seed, epoch = case
    sizes = f" {block} | {window} " if kind == "window" else " | "

    line = f"| {kind} |{sizes}| {rows} | {seed} | {epoch} | {' '.join(map(str, expected))} |"

    assert line in REFERENCE.read_text(encoding="utf-8")


@pytest.mark.parametrize("rows", [1, 2, 9, 100, 128, 129, 255, 256, 257, 1000, 5003])
def test_full_order_is_what_the_reference_page_says(rows):
    keys = words(b"order", 7, 3, 0, 6)

    expected = [permuted(place, rows, keys) for place in range(rows)]
    plan = build_access_plan(PlanKey("any", Order("full"), 7, 3), rows)

    assert plan.positions(0, rows).tolist() == expected


@pytest.mark.parametrize(("rows", "block", "window"), [(1, 3, 2), (100, 7, 3), (1000, 16, 4)])
def test_windowed_order_is_what_the_reference_page_says(rows, block, window):
    rotation = words(b"rotation", 7, 3, 0, 1)[0] % rows
    span = block * window
    expected: list[int] = []
    for place in range(rows):
        number = place // span
        inside = min(span, rows - number * span)
        shuffled = permuted(place - number * span, inside, words(b"window", 7, 3, number, 6))
        slot, offset = divmod(number * span + shuffled, block)
        full_blocks = rows // block
        if slot < full_blocks:
            slot = permuted(slot, full_blocks, words(b"blocks", 7, 3, 0, 6))
        expected.append((slot * block + offset + rotation) % rows)

    plan = build_access_plan(PlanKey("any", Order("window", block, window), 7, 3), rows)

    assert np.array_equal(plan.positions(0, rows), expected)
