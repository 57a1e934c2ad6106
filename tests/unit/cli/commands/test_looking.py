"""info, ls, head: what a dataset is, without writing to it."""

import json

import tensorlake as tl


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
