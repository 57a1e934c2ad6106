"""Confident learning: cases computed by hand, noise that is found again, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.quality.label_issues import issues_of


def test_the_issues_are_those_of_the_paper_computed_by_hand():
    # Thresholds: cat (.9 + .8 + .2 + .05) / 4 = .4875, dog (.7 + .9 + .6) / 3 = .7333.
    # Confident: rows 0, 1 cat→cat; row 2 cat→dog (.8); row 3 cat→dog (.95); row 5 dog→dog (.9);
    # rows 4 (.7) and 6 (.6 dog, .4 cat) reach no threshold. Joint: cat [2, 2], dog [0, 1], scaled
    # to 4 and 3 given labels: two cats are dogs, no dog is a cat.
    codes = np.array([0, 0, 0, 0, 1, 1, 1])
    cats = np.array([0.9, 0.8, 0.2, 0.05, 0.3, 0.1, 0.4])
    found, scores, suggested = issues_of(codes, np.stack([cats, 1 - cats], axis=1))

    assert found.tolist() == [3, 2]
    np.testing.assert_allclose(scores, [0.95, 0.8])
    assert suggested.tolist() == [1, 1]


def test_a_class_nobody_is_labelled_with_or_sure_of_is_no_issue():
    # Nobody is labelled 2: its threshold is infinite. The one dog is as probable as its threshold.
    probs = np.array([[0.6, 0.1, 0.3], [0.2, 0.3, 0.5], [0.5, 0.1, 0.4]])
    assert issues_of(np.array([0, 1, 0]), probs)[0].tolist() == []
    assert issues_of(np.zeros(0, np.int64), np.zeros((0, 3)))[0].tolist() == []


def test_flipped_labels_are_found_again():
    rng = np.random.default_rng(3)
    true = rng.integers(0, 5, 2000)
    logits = rng.normal(0, 1, (2000, 5)) + 6 * np.eye(5)[true]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = true.copy()
    flipped = rng.choice(2000, 100, replace=False)
    given[flipped] = (given[flipped] + 1 + rng.integers(0, 4, 100)) % 5

    found, scores, suggested = issues_of(given, probs.astype(np.float32))

    hits = set(found.tolist()) & set(flipped.tolist())
    assert len(hits) >= 95
    assert len(found) <= 110
    assert (np.diff(scores) <= 0).all()
    assert (suggested == true[found]).mean() > 0.95


@pytest.fixture
def pets(tmp_path: Path) -> tl.Dataset:
    ds = tl.create(
        str(tmp_path / "pets"),
        {
            "label": tl.ClassLabel(["cat", "dog"], nullable=True),
            "p": tl.Array("float32", (2,), nullable=True),
            "three": tl.Array("float32", (3,)),
            "n": "int64",
        },
    )
    cats = [0.9, 0.8, 0.1, 0.2, 0.05, 0.3, 0.3]
    ds.extend(
        {
            "label": ["cat", "cat", "dog", "dog", "cat", None, "cat"],
            "p": [*([one, 1 - one] for one in cats[:-1]), None],
            "three": np.zeros((7, 3)),
            "n": range(7),
        }
    )
    ds.commit("seven")
    return ds


def test_a_view_has_the_rows_worst_first(pets: tl.Dataset):
    issues = tl.find_label_issues(pets, "label", "p")
    some = tl.find_label_issues(pets.where("n < 4"), "label", "p")

    assert issues.rows.tolist() == [4]
    assert len(issues) == 1
    np.testing.assert_allclose(issues["issue_score"][:], [0.95])
    assert len(some) == 0


@pytest.mark.parametrize(
    ("label", "probs", "said"),
    [
        ("n", "p", "one class label per row"),
        ("label", "n", "a float for each class"),
        ("label", "three", "has 2 classes, and 'three' has 3"),
        ("nothing", "p", "nothing"),
    ],
)
def test_other_columns_are_refused(pets: tl.Dataset, label: str, probs: str, said: str):
    with pytest.raises(tl.TensorlakeError, match=said):
        tl.find_label_issues(pets, label, probs)


def test_numbers_that_are_no_probabilities_are_refused(pets: tl.Dataset):
    for bad in ([0.9, 0.9], [-0.5, 1.5], [float("inf"), float("-inf")]):
        pets["p"][2] = bad
        pets.commit("bad")
        with pytest.raises(tl.InvalidInputError, match="row 2 of 'p'"):
            tl.find_label_issues(pets, "label", "p")


def test_rows_with_nan_among_the_probabilities_are_left_out_and_counted(pets: tl.Dataset):
    for row, nan in ((1, [float("nan")] * 2), (5, [float("nan"), 1]), (0, [1, float("nan")])):
        pets["p"][row] = nan  # row 5 has no label
    pets.commit("not predicted")

    issues = tl.find_label_issues(pets, "label", "p")

    assert issues.rows.tolist() == [4]
    assert "of 3 rows" in issues.explain()
    assert "left out for NaN among the probabilities: 2" in issues.explain()
