"""Classes with ids, moved and renamed by merges, stay readable for ever (format.md 34 and 44)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tensorlake as tl

DATASET = Path(__file__).parent / "v1_classes"

MAIN = ["cat", "dog", "cat", "owl", "drake", "rhea", "owl", "dog", "rhea", "yak"]
FIX = {"names": ("cat", "dog", "rhea", "owl", "yak"), "rows": [0, 1, 2, 5, 6, 7, 8, 9]}


def opened(version: str) -> tl.Dataset:
    return tl.open(DATASET.as_posix(), version, read_only=True)


def test_each_branch_has_codes_of_its_own_and_every_row_its_class():
    main, fix = opened("main"), opened("fix")

    assert main["label"].names == ("cat", "dog", "owl", "drake", "rhea", "yak")
    assert main["label"][:].as_names() == MAIN
    assert main["row"][:].tolist() == list(range(10))
    assert fix["label"].names == FIX["names"]
    assert fix["row"][:].tolist() == FIX["rows"]
    assert fix["label"][:].as_names() == [MAIN[row] for row in FIX["rows"]]


def test_versions_before_a_renaming_have_the_names_of_then():
    assert opened("main@3")["label"][:].as_names()[4:6] == ["hen", "emu"]
    assert opened("fix@2")["label"].names == ("cat", "dog", "emu", "owl")


@pytest.mark.parametrize(
    ("name", "rows"),
    [("owl", [3, 6]), ("rhea", [5, 8]), ("drake", [4]), ("yak", [9]), ("dog", [1, 7])],
)
def test_a_class_is_found_whatever_code_its_chunks_have(name, rows):
    assert opened("main").query(f"WHERE label = '{name}'").rows.tolist() == rows


def test_the_next_merge_still_knows_the_classes_by_their_ids(tmp_path):
    shutil.copytree(DATASET, tmp_path / "copy")
    fix = tl.open((tmp_path / "copy").as_posix(), "fix")
    fix["label"].rename("rhea", "nandu")
    fix.append({"label": "owl", "row": 10})
    fix.commit("renamed again")
    main = tl.open((tmp_path / "copy").as_posix())

    main.merge("fix")

    assert main["label"].names == ("cat", "dog", "owl", "drake", "nandu", "yak")
    assert main["label"][:].as_names()[-6:] == ["nandu", "owl", "dog", "nandu", "yak", "owl"]
