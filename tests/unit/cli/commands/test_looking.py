"""info, ls, head: what a dataset is, without writing to it."""

import io
import json
import re
import sys

import pytest

import tensorlake as tl
from tensorlake.cli import main


def test_info_says_version_rows_tensors_and_last_commits(run, pets):
    shown = run("info", pets)

    assert shown.code == 0
    assert shown.lines[0].startswith(f"{pets}   main@3   3 rows")
    assert any(
        line.startswith("label") and "ClassLabel(2: cat, dog)" in line for line in shown.lines
    )
    assert any(line.startswith("main@3") and "a dog after all" in line for line in shown.lines)


def test_info_of_an_older_version_is_of_that_version(run, pets):
    document = json.loads(run("info", pets, "--at", "main@1", "--json").out)

    assert document["version"] == "main@1"
    assert document["rows"] == 2
    assert [tensor["name"] for tensor in document["tensors"]] == [
        "image",
        "label",
        "score",
        "boxes",
        "note",
    ]


def test_info_schema_prints_only_names_and_types(run, pets):
    shown = run("info", pets, "--schema")

    assert [line.split()[0] for line in shown.lines] == ["image", "label", "score", "boxes", "note"]


class Terminal(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


def in_a_narrow_terminal(monkeypatch, *arguments: str) -> list[list[str]]:
    """Run a command on a terminal of 30 columns; the words of each line."""
    terminal = Terminal()
    for name, value in {"COLUMNS": "30", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit):
        main(arguments)
    lines = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()).splitlines()
    assert all(len(line) <= 30 for line in lines if not line.startswith(arguments[1]))
    return [line.split() for line in lines]


def test_a_narrow_terminal_shows_names_and_cuts_the_rest(monkeypatch, tmp_path):
    url = tl.create(str(tmp_path / "a"), {"id": "int64", "vec": tl.Array("float32", (8,))}).url
    with tl.open(url) as ds:
        ds.extend({"id": [100, 200], "vec": [[0.123456] * 8] * 2})
        ds.commit("two rows, with a message that is far too long for this terminal")

    words = [
        in_a_narrow_terminal(monkeypatch, *arguments)
        for arguments in (("ls", url), ("info", url), ("log", url, "--oneline"), ("head", url))
    ]

    tensors, info, log, head = [[line[0] for line in lines if line] for lines in words]
    assert tensors == ["id", "vec"]
    assert {"id", "vec", "main@1", "main@0"} <= {*info}
    assert log == ["main@1", "main@0"]
    assert head == ["id", "100", "200"]


def test_n_of_zero_means_all_rows_in_head_and_query(run, pets):
    for command in (("head", pets), ("query", pets, "SELECT *")):
        assert len(run(*command, "-n", "0", "--jsonl").lines) == 3


def test_ls_of_a_folder_that_is_not_there_is_an_error(run, tmp_path):
    (tmp_path / "empty").mkdir()

    missing = run("ls", str(tmp_path / "nowhere"))

    assert (missing.code, missing.out) == (1, "")
    assert f"there is no folder {str(tmp_path / 'nowhere')!r}" in missing.err
    assert run("ls", str(tmp_path / "empty")).code == 0


def test_info_of_a_lake_names_its_datasets_and_ls(run, pets):
    lake = pets.removesuffix("/pets")

    refused = run("info", lake)

    assert refused.code == 1
    assert "is a lake, not a dataset: 'pets'" in refused.err
    assert f"tensorlake ls {lake}" in refused.err
    assert "ingest" not in refused.err


def test_head_tells_what_an_image_is_instead_of_decoding_it(run, pets):
    shown = run("head", pets, "-n", "1", "-c", "image,label")

    assert shown.lines[0].split() == ["image", "label"]
    assert shown.lines[1].startswith("png 8×6×3")
    assert shown.lines[1].endswith("cat")
    assert len(shown.lines) == 2


def test_head_as_json_loses_nothing_that_json_lacks(run, pets):
    rows = json.loads(run("head", pets, "--json").out)

    assert [row["label"] for row in rows] == ["cat", "dog", "dog"]
    assert [row["score"] for row in rows] == [0.5, "NaN", 0.25]
    assert [row["note"] for row in rows] == ["first", None, "third"]
    assert rows[2]["boxes"] == [[1.0, 1.0, 4.0, 4.0], [0.0, 0.0, 1.0, 1.0]]
    assert rows[0]["image"]["shape"] == [8, 6, 3]
    assert rows[0]["image"]["codec"] == "png"


def test_ls_lists_the_datasets_of_a_lake(run, pets):
    lake = pets.removesuffix("/pets")
    tl.create(f"{lake}/empty", {"x": "int64"}).close()

    assert run("ls", lake).lines == ["empty", "pets"]
    long = run("ls", lake, "-l", "--sort", "size").lines
    assert long[1].split()[:2] == ["pets", "3"]
    assert long[2].split()[:2] == ["empty", "0"]


def test_ls_of_a_dataset_lists_its_tensors(run, pets):
    shown = run("ls", pets)

    assert shown.lines[2].split()[0] == "score"
    assert "float32" in shown.lines[2]
