"""What things print in a session: short, in the words of the glossary, no object addresses."""

import datetime as dt
import uuid

import numpy as np
import pytest

import tensorlake as tl

URL = "memory://printing/pets"
SEEN = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
NAME = uuid.UUID(int=7)


@pytest.fixture
def ds(monkeypatch):
    monkeypatch.setenv("TENSORLAKE_AUTHOR", "ana")
    with tl.create(
        URL,
        {
            "image": tl.Image("png"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "seen": tl.Timestamp(tz="UTC"),
            "id": tl.Uuid(),
        },
    ) as made:
        made.extend(
            {
                "image": [np.zeros((8, 6, 3), np.uint8)] * 2,
                "label": ["cat", "dog"],
                "seen": [SEEN, SEEN],
                "id": [NAME, NAME],
            }
        )
        made.commit("two pets")
        yield made
    tl.delete(URL, confirm=URL)


def test_a_dataset_is_its_version_its_rows_and_a_line_a_tensor(ds):
    assert repr(ds).splitlines() == [
        f"Dataset '{URL}' main@1 · 2 rows",
        "  image   Image(png)                ragged (None, None, 3) uint8",
        "  label   ClassLabel(2: cat, dog)   () int64",
        "  seen    Timestamp(us, UTC)        () int64",
        "  id      Uuid",
    ]


def test_a_row_shows_values_and_decodes_no_image(ds):
    first, image, *values = repr(ds[1]).splitlines()

    assert first == f"Row 1 of '{URL}' main@1"
    assert image.startswith("  image  png 8×6×3, ")
    assert image.endswith("not decoded")
    assert values == [
        "  label  1 'dog'",
        "  seen   2026-01-31 12:00:00+00:00",
        f"  id     {NAME}",
    ]


def test_a_view_shows_how_many_rows_and_which_query(ds):
    assert repr(ds.query("WHERE label = 'cat'")).splitlines() == [
        f"View of '{URL}' main@1 · 1 of 2 rows",
        "  WHERE label = 'cat'",
    ]


def test_aggregates_show_their_first_values(ds):
    grouped = ds.query("SELECT label, COUNT(*) AS n, MIN(seen) FROM this GROUP BY label")

    assert repr(grouped).splitlines() == [
        f"View of '{URL}' main@1 · 2 rows of aggregates",
        "  SELECT label, COUNT(*) AS n, MIN(seen) FROM this GROUP BY label",
        "  label    n  MIN(seen)",
        "  0 'cat'  1  2026-01-31T12:00:00.000000",
        "  1 'dog'  1  2026-01-31T12:00:00.000000",
    ]


def test_of_many_aggregates_the_first_are_shown_and_the_others_counted(ds):
    ids = [uuid.UUID(int=at) for at in range(8, 20)]
    images = [np.zeros((1, 1, 3), np.uint8)] * 12
    ds.extend({"image": images, "label": ["cat"] * 12, "seen": [SEEN] * 12, "id": ids})
    ds.commit("more pets")
    columns = ", ".join(f"COUNT(*) AS n{at}" for at in range(14))

    *lines, last = repr(ds.query(f"SELECT {columns} FROM this GROUP BY id")).splitlines()

    assert lines[2].split() == [f"n{at}" for at in range(12)]
    assert len(lines) == 2 + 1 + 10
    assert last == "  … 3 more rows and 2 more columns (to_arrow())"


def test_a_tensor_and_a_column_of_boxes_say_what_they_hold(ds):
    assert repr(ds["label"]) == "Tensor 'label' ClassLabel(2: cat, dog) · 2 × () int64"


def test_a_commit_is_one_line(ds):
    commit = ds.log(1)[0]

    assert repr(commit).startswith("Commit main@1 'two pets' · ")
    assert repr(commit).endswith(" · +2 rows")
    assert "\n" not in repr(commit)


def test_a_tag_says_of_what_and_until_when(ds):
    assert repr(ds.tag("v1")) == "Tag 'v1' of main@1"
    assert repr(ds.tag("v2", expires=dt.datetime(2999, 1, 31, tzinfo=dt.UTC))) == (
        "Tag 'v2' of main@1, until 2999-01-31"
    )


def test_a_difference_is_as_gits_stat(ds):
    ds["label"][0] = "dog"

    assert repr(ds.diff()).splitlines() == [
        "main@1 → staged changes",
        " label  1 row updated   cat → dog 1",
    ]
    ds.discard()


def test_reports_of_upkeep_are_sentences_in_a_session_too(ds):
    assert repr(ds.gc(dry_run=True)).startswith("would delete 0 packs")
    assert repr(ds.expire(keep_last=1, dry_run=True)) == str(ds.expire(keep_last=1, dry_run=True))
    assert repr(ds.check()).startswith(f"{URL}: no problems found")
    assert repr(ds.optimize()) == "main@1 is optimal already: 4 chunks"
    ds.branch("fix").close()
    assert "nothing new" in repr(ds.merge("fix", dry_run=True))


def test_a_summary_offers_only_what_there_is(ds):
    offered = str(ds.summary()).splitlines()[-1]

    assert offered.startswith("next: ")
    for call in offered.removeprefix("next: ").split(" · "):
        assert hasattr(ds, call.removeprefix("ds.").partition("(")[0])


def test_a_summary_says_what_takes_the_room_and_which_names_there_are(ds):
    ds.query("WHERE label = 'cat'").save("cats")
    ds.tag("v1")
    ds["image"][0] = np.ones((8, 6, 3), np.uint8)
    ds.commit('white, "as snow"')

    first, second, *table = str(ds.summary()).splitlines()

    assert first == f'{URL}   main@2 "white, "as snow""   ana, just now   format 1'
    assert second.startswith("2 rows · ")
    assert "in old versions and the index)" in second
    assert second.endswith(" · 1 branch (main) · 1 tag (v1) · 1 view (cats)")
    assert table[2].split()[-4:-2] == ["0", "mean"]


def test_a_summary_counts_the_nulls_that_are_left_of_an_added_tensor():
    ds = tl.create("memory://printing/nulls", {"x": "int64"})
    ds.extend({"x": range(10)})
    ds.add_tensor("score", tl.Scalar("float32", nullable=True))
    ds.commit("ten, not scored")
    assert ds.summary().tensors[1].nulls == 10

    ds["score"][3:] = np.ones(7, np.float32)
    ds.commit("seven scored")

    assert ds.summary().tensors[1].nulls == ds.where("score IS NULL").count() == 3


def test_a_branch_taken_over_whole_is_told_by_its_name():
    ds = tl.create("memory://printing/whole", {"x": "int64"})
    with ds.branch("fix") as fix:
        fix.append({"x": 1})
        fix.commit("one")

    ds.merge("fix")

    assert ds.log(1)[0].summary() == "all of fix@2"


def test_a_full_summary_counts_classes_and_lengths():
    ds = tl.create("memory://printing/full", {"boxes": tl.BBox(), "y": tl.ClassLabel(["a", "b"])})
    ds.extend({"boxes": [[], [[0, 0, 1, 1]] * 3, []], "y": ["b", "b", "a"]})
    ds.commit("three")

    _, _, _, _, boxes, labels, _ = str(ds.summary(full=True)).splitlines()

    assert boxes.endswith("mean 1 a row; 2 rows empty")
    assert labels.endswith("b 2  a 1")


def test_a_long_vector_shows_its_first_elements_and_an_embedding_its_norm():
    schema = {"v": tl.Embedding(100), "box": tl.BBox(), "t": tl.Array("int64", (None,))}
    ds = tl.create("memory://printing/long", schema)
    ds.extend({"v": [np.full(100, 0.1)], "box": [[[48, 240.5, 195, 371]]], "t": [range(50)]})

    assert repr(ds[0]).splitlines()[1:] == [
        "  v    float32 (100,) [0.1, 0.1, 0.1, …] norm 1.000",
        "  box  float32 (1, 4) [[48, 240.5, 195, 371]]",
        "  t    int64 (50,) [0, 1, 2, …]",
    ]
    ds.discard()
