"""Folders of texts: a row for each file, its class by its folder or its name."""

import zipfile

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

REVIEWS = {
    "train/neg/1.txt": "too long\r\n",
    "train/pos/1.txt": "a joy",
    "test/neg/9.txt": "",
    "test/pos/2.txt": "schön \N{GRINNING FACE}",
}


@pytest.fixture
def reviews(tmp_path):
    for name, text in REVIEWS.items():
        path = tmp_path / "reviews" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return tmp_path / "reviews"


def rows_of(ds):
    return [(row["split"], row["label"], row["text"]) for row in ds]


def test_folders_are_splits_and_classes(reviews, tmp_path):
    (reviews / "readme.md").write_text("not a text of these")
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        for name, text in REVIEWS.items():
            archive.writestr(f"reviews/{name}", text)

    from_folder = tl.ingest.texts(reviews, tmp_path / "a.tl")
    from_archive = tl.ingest.texts(tmp_path / "r.zip", tmp_path / "b.tl")

    expected = [(*name.split("/")[:2], REVIEWS[name]) for name in sorted(REVIEWS)]
    assert rows_of(from_folder) == rows_of(from_archive) == expected


def test_the_same_call_follows_the_files(reviews, tmp_path):
    tl.ingest.texts(reviews, tmp_path / "a.tl")
    (reviews / "train/pos/1.txt").write_text("a great joy")
    (reviews / "train/neg/2.txt").write_text("dull")
    (reviews / "test/neg/9.txt").unlink()

    ds = tl.ingest.texts(reviews, tmp_path / "a.tl", delete=True)

    report = ds.ingest_report
    assert (report.added, report.updated, report.deleted, report.unchanged) == (1, 1, 1, 2)
    assert {text for _, _, text in rows_of(ds)} == {
        *(REVIEWS[name] for name in ("train/neg/1.txt", "test/pos/2.txt")),
        "a great joy",
        "dull",
    }


def test_endings_patterns_and_encodings(tmp_path):
    root = tmp_path / "a"
    root.mkdir()
    (root / "spam-1.MD").write_bytes("caf\xe9".encode("latin-1"))
    (root / "ham-2.md").write_bytes(b"x")

    ds = tl.ingest.texts(
        root, tmp_path / "a.tl", pattern="{label}-{id}.*", ending=".md", encoding="latin-1"
    )

    assert [(row["label"], row["id"], row["text"]) for row in ds] == [
        ("ham", "2", "x"),
        ("spam", "1", "caf\xe9"),
    ]
    with pytest.raises(InvalidInputError, match=r"'spam-1\.MD' is not utf-8 from the bytes"):
        tl.ingest.texts(root, tmp_path / "b.tl", ending="")
    skipped = tl.ingest.texts(root, tmp_path / "c.tl", ending="", on_error="skip")
    assert [one.item for one in skipped.ingest_report.skipped] == ["spam-1.MD"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ending": 3}, "ending=3"),
        ({"encoding": "utf-9"}, "encoding='utf-9'"),
        ({"encoding": "utf-8\0"}, "encoding="),
        ({"ending": ".rst"}, r"no texts in .*\n.*\.rst"),
        ({"pattern": "{text}.txt", "ending": ""}, "cannot be 'text'"),
    ],
)
def test_wrong_arguments_are_named(reviews, tmp_path, given, words):
    with pytest.raises(InvalidInputError, match=words):
        tl.ingest.texts(reviews, tmp_path / "a.tl", **given)


def test_a_folder_without_texts_is_told_with_the_way_to_other_endings(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A")
    url = f"memory://{tmp_path.name}"

    with pytest.raises(InvalidInputError, match=r"no texts in .*\n.*ending='\.md'"):
        tl.ingest.texts(tmp_path / "notes", url)

    assert tl.ingest.texts(tmp_path / "notes", url, ending=".md")["text"][:] == ["# A"]
