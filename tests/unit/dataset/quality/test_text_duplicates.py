"""Texts that are nearly the same, judged by the Jaccard similarity of all pairs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.quality.minhash import shingles_of, signatures_of


def words(number: random.Random, count: int) -> list[str]:
    return ["".join(number.choices("abcdefghij", k=number.randint(2, 9))) for _ in range(count)]


def edited(number: random.Random, text: str, share: float) -> str:
    """Replace a share of the words by others."""
    return " ".join(
        words(number, 1)[0] if number.random() < share else word for word in text.split(" ")
    )


def runs_of_8(text: str) -> set[bytes]:
    data = text.encode()
    return {data[at : at + 8] for at in range(len(data) - 7)}


def jaccard(one: set[bytes], other: set[bytes]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def near_duplicates(count: int, size: int) -> list[str]:
    """Texts of which every fourth is an edition of another, more or less like it."""
    number = random.Random(5)
    texts = [" ".join(words(number, size)) for _ in range(count)]
    for at in range(0, count, 4):
        texts[at + 1] = edited(number, texts[at], number.choice([0.01, 0.03, 0.06, 0.1, 0.3]))
    return texts


def dataset(url: str, texts: Sequence[str | None]) -> tl.Dataset:
    ds = tl.create(url, {"text": tl.Text(nullable=True)})
    ds.extend({"text": texts})
    ds.commit("texts")
    return ds


@pytest.fixture(scope="module")
def editions() -> tuple[list[str], dict[tuple[int, int], float]]:
    texts = near_duplicates(200, 40)
    sets = [runs_of_8(text) for text in texts]
    pairs = combinations(range(len(texts)), 2)
    return texts, {(a, b): jaccard(sets[a], sets[b]) for a, b in pairs}


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_texts_are_clustered_as_by_all_pairs(editions: Any, threshold: Any):
    texts, similarities = editions
    wanted = {pair for pair, similarity in similarities.items() if similarity >= threshold}
    assert len(wanted) > 5

    twins = tl.find_duplicates(
        dataset(f"memory://text-twins-{threshold}", texts), "text", threshold=threshold
    )

    pairs = {
        (row["duplicate_of"], int(at))
        for at, row in zip(twins.rows, twins, strict=True)
        if row["duplicate_of"] is not None
    }
    assert pairs <= wanted
    assert len(pairs) >= 0.97 * len(wanted)


def test_copies_short_texts_and_scripts_are_compared_by_bytes():
    base = "数据湖保存张量,并记录每一个版本。" * 3
    texts = ["", "cat", base, "cats", "cat", None, base + "!", "", "a long text without any twin"]

    twins = tl.find_duplicates(dataset("memory://text-twins-short", texts), "text")

    clusters = [twins.rows[twins["cluster"][:] == at].tolist() for at in range(3)]
    assert clusters == [[0, 7], [1, 4], [2, 6]]
    exact = tl.find_duplicates(dataset("memory://text-twins-exact", texts), "text", "exact")
    assert exact.rows.tolist() == [0, 7, 1, 4]


def test_a_signature_estimates_the_similarity_of_texts_of_every_length():
    number = random.Random(3)
    for size in (4, 40, 400, 3_000, 20_000):
        one = " ".join(words(number, size))
        other = one + " " + " ".join(words(number, max(1, size // 3)))
        a, b = signatures_of([one.encode(), other.encode()])
        assert abs((a == b).mean() - jaccard(runs_of_8(one), runs_of_8(other))) < 0.16, size
        together = signatures_of([b"cat", one.encode(), b"", one.encode()[:50]])[1]
        assert np.array_equal(a, together), size


def test_a_long_text_that_repeats_itself_is_found():
    texts = ["ab" * 20_000, "ab" * 30_000, "cd" * 20_000]
    twins = tl.find_duplicates(dataset("memory://text-twins-repeated", texts), "text")
    assert twins.rows.tolist() == [0, 1]
    assert len(shingles_of(texts[0].encode())) == 2


@pytest.mark.parametrize("texts", [[], [None], ["one text"], [None, "", None], ["a" * 9, "b" * 9]])
def test_few_texts_have_no_twins(texts: list[str | None]):
    ds = tl.create(
        f"memory://text-twins-few-{len(texts)}-{str(texts)[:6]}", {"text": tl.Text(nullable=True)}
    )
    ds.extend({"text": texts})
    ds.commit("few")
    assert tl.find_duplicates(ds, "text").rows.tolist() == []


def test_thousands_of_editions_of_one_text_are_one_cluster():
    number = random.Random(1)
    base = " ".join(words(number, 80))
    texts = [f"{base} {at}" for at in range(3_000)]
    twins = tl.find_duplicates(dataset("memory://text-twins-template", texts), "text")
    assert len(twins) == 3_000
    assert set(twins["cluster"][:].tolist()) == {0}


def test_copies_of_any_type_are_found_and_nothing_else():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(60, 3)).astype(np.float32)
    values[50] = values[4]
    ragged = [rng.integers(0, 2, (2, 3)) for _ in range(58)] + [np.zeros((2, 3)), np.zeros((3, 2))]
    types = {"v": tl.Array("float32", (3,)), "r": tl.Array("int8", (None, None)), "n": "int64"}
    ds = tl.create("memory://copies-any", types)
    ds.extend({"v": values, "r": [one.astype(np.int8) for one in ragged], "n": np.arange(60) % 50})
    ds.commit("sixty")
    assert tl.find_duplicates(ds, "v", "exact").rows.tolist() == [4, 50]
    assert len(tl.find_duplicates(ds, "n")) == 20

    twins = tl.find_duplicates(ds, "r")
    by_bytes: dict[tuple[object, ...], list[int]] = {}
    for row, one in enumerate(ragged):
        by_bytes.setdefault((one.shape, one.astype(np.int8).tobytes()), []).append(row)
    wanted = [rows for rows in by_bytes.values() if len(rows) > 1]
    found = twins["cluster"][:]
    assert [twins.rows[found == at].tolist() for at in range(len(wanted))] == wanted
    assert 59 not in twins.rows.tolist()
