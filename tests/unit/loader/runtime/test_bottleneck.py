"""Which stage holds a loader back: the decision alone, from what was counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorlake.loader import LoaderStats
from tensorlake.loader.runtime.stats import find_bottleneck

# What counts for whom, in a stream of 1000 rows that took ten seconds.
STREAM = LoaderStats(wall_s=10.0, batches=10, rows=1000, threads=2, start_s=0.2, blocked_s=9.0)
CASES = {
    "slow store": ("fetch", {"fetch_s": 9.5, "decode_s": 9.0, "user_s": 0.5}),
    "narrow prefetch": ("prefetch", {"fetch_s": 9.5, "held_s": 8.0, "decode_s": 9.0}),
    "cache too small": (
        "cache",
        {
            "fetch_s": 9.5,
            "cache_short_nbytes": 10**9,
            "fetched_nbytes": 10**9,
            "refetched_nbytes": 10**9,
        },
    ),
    "slow index": ("plan", {"plan_s": 9.0, "fetch_s": 1.0}),
    "slow decode": ("decode", {"decode_s": 19.0, "transform_s": 0.5}),
    "slow decode, requests always under way": ("decode", {"decode_s": 19.0, "fetch_s": 10.0}),
    "slow decode, prefetch full of it": ("decode", {"decode_s": 19.0, "fetch_s": 9, "held_s": 9}),
    "decode and transform together": ("transform", {"decode_s": 8.0, "transform_s": 11.0}),
    "slow transform that sleeps": ("transform", {"transform_s": 19.5, "decode_s": 0.2}),
    "slow unpacking": ("unpack", {"unpack_s": 19.0, "fetch_s": 8.0}),
    "slow collate function": ("collate", {"collate_s": 18.0, "gather_s": 1.0, "decode_s": 0.5}),
    "lock held by others": ("waiting", {"waiting_s": 15.0, "decode_s": 4.0}),
    "lock and processors taken by others": (
        "waiting",
        {"waiting_s": 8.0, "decode_s": 11.0, "queued_s": 8.0},
    ),
    "processors taken by others": (
        "decode",
        {"decode_s": 19.0, "queued_s": 14.0, "waiting_s": 0.5},
    ),
    "slow loop": ("consumer", {"user_s": 9.5, "blocked_s": 0.1, "decode_s": 8.0}),
    "slow loop that holds the lock": (
        "consumer",
        {"user_s": 9.5, "blocked_s": 0.1, "decode_s": 3.0, "waiting_s": 16.0},
    ),
    "slow loop, chunks still coming": ("consumer", {"user_s": 9.5, "blocked_s": 0.1, "fetch_s": 9}),
    "slow batch_transform": (
        "batch_transform",
        {"batch_transform_s": 9.0, "user_s": 0.5, "blocked_s": 0.1, "decode_s": 5.0},
    ),
    "slow copies to a device": ("convert", {"convert_s": 9.0, "user_s": 0.5, "blocked_s": 0.1}),
    "small batches of arrays": ("gather", {"cut_s": 5.0, "plan_s": 1.0, "blocked_s": 0.1}),
    "slow loop that still waits, of slow decode": (
        "decode",
        {"user_s": 7.5, "blocked_s": 2.3, "decode_s": 19.0},
    ),
    "nothing much": ("", {"fetch_s": 2.0, "decode_s": 4.0}),
    "start-up": ("", {"start_s": 8.0, "blocked_s": 0.1, "user_s": 1.9, "decode_s": 3.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_stage_that_all_others_wait_for_is_named(case):
    name, counted = CASES[case]

    found = find_bottleneck(replace(STREAM, **counted))

    assert found.name == name
    assert found.sentence


def test_decoding_says_when_others_take_the_processors():
    alone = replace(STREAM, decode_s=19.0, queued_s=1.0)
    shared = replace(STREAM, decode_s=19.0, queued_s=14.0)

    assert "processor" not in alone.bottleneck()
    assert "Its threads waited for a processor 74% of that." in shared.bottleneck()


def test_a_prefetch_that_is_too_small_says_which_would_do():
    stats = replace(STREAM, fetch_s=10.0, held_s=8.0, prefetch_nbytes=64_000_000)

    assert "80% of the time spent reading" in stats.bottleneck()
    assert "prefetch='128MB'" in stats.bottleneck()
