"""ingest: files become a dataset, and bad files a message."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl

DATA = Path(__file__).resolve().parents[4] / "examples" / "data"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number, picture in enumerate(sorted((DATA / "coco" / "images").glob("*.jpg"))[:3]):
        target = folder / ("cat" if number else "dog") / picture.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture.read_bytes())
    return folder


def test_a_folder_of_images_becomes_a_dataset_with_folders_as_classes(
    run: Any, photos: Any, tmp_path: Path
) -> None:
    made = run("ingest", "images", str(photos), str(tmp_path / "pets.tl"))

    assert made.code == 0
    assert made.out.startswith("3 images added; read ")
    assert made.out.rstrip().endswith("pets.tl main@1 (committed in 1 commit)")
    ds = tl.open(str(tmp_path / "pets.tl"))
    assert ds["label"].names == ("cat", "dog")
    assert len(ds) == 3


def test_ingesting_again_adds_nothing(run: Any, photos: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "pets.tl")
    run("ingest", "images", str(photos), target)

    again = json.loads(run("ingest", "images", str(photos), target, "--json").out)

    assert again["rows"] == 0
    assert again["already_there"] == 3
    assert again["version"] == "main@1"


def test_a_source_that_changed_is_counted_and_brought_in(
    run: Any, photos: Any, tmp_path: Path
) -> None:
    target = str(tmp_path / "pets.tl")
    run("ingest", "images", str(photos), target)
    first, second = sorted((photos / "cat").glob("*.jpg"))
    (photos / "cat" / "new.jpg").write_bytes(next((photos / "dog").glob("*.jpg")).read_bytes())
    first.write_bytes(second.read_bytes())
    second.unlink()

    again = run("ingest", "images", str(photos), target)
    deleted = json.loads(run("ingest", "images", str(photos), target, "--delete", "--json").out)

    assert again.code == 0
    assert again.out.startswith("1 image added, 1 updated, 1 unchanged, 1 no longer in the source;")
    assert "its row stays in the dataset; to remove: --delete" in again.out
    assert (deleted["vanished"], deleted["deleted"], deleted["rejected"]) == (1, 1, 0)
    assert len(tl.open(target)) == 3


def test_a_conflict_fails_unless_it_is_decided(run: Any, photos: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "pets.tl")
    run("ingest", "images", str(photos), target)
    ds = tl.open(target)
    ds["label"][0] = "dog"
    ds.commit("relabel")
    first, second = sorted((photos / "cat").glob("*.jpg"))
    first.write_bytes(second.read_bytes())

    kept = run("ingest", "images", str(photos), target)
    told = run("ingest", "images", str(photos), target, "--on-conflict", "keep")
    refused = run("ingest", "images", str(photos), target, "--on-conflict", "error")
    taken = run("ingest", "images", str(photos), target, "--on-conflict", "source")

    assert (kept.code, told.code, refused.code, taken.code) == (1, 0, 1, 0)
    assert f"conflict: cat/{first.name}, row 0, 'label': changed by hand" in kept.out
    assert "--on-conflict source" in refused.err
    assert tl.open(target)["label"][0] == "cat"


def test_an_append_of_what_is_there_fails(run: Any, photos: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "pets.tl")
    run("ingest", "images", str(photos), target)
    (photos / "cat" / "new.jpg").write_bytes(next(photos.rglob("*.jpg")).read_bytes())

    appended = run("ingest", "images", str(photos), target, "--append")

    assert appended.code == 1
    assert "3 of 4 images" in appended.err
    assert len(tl.open(target)) == 3


def test_a_damaged_image_fails_and_is_named(run: Any, photos: Any, tmp_path: Path) -> None:
    (photos / "cat" / "broken.jpg").write_bytes(b"no picture")

    failed = run("ingest", "images", str(photos), str(tmp_path / "pets.tl"))

    assert failed.code == 1
    assert "broken.jpg" in failed.err


def test_a_damaged_image_can_be_left_out(run: Any, photos: Any, tmp_path: Path) -> None:
    (photos / "cat" / "broken.jpg").write_bytes(b"no picture")

    made = run(
        "ingest", "images", str(photos), str(tmp_path / "pets.tl"), "--on-error", "skip", "--json"
    )

    document = json.loads(made.out)
    assert document["rows"] == 3
    assert [item["item"] for item in document["skipped"]] == [str(Path("cat") / "broken.jpg")]


def test_coco_takes_the_json_the_images_and_the_destination(run: Any, tmp_path: Path) -> None:
    coco = DATA / "coco"

    made = run(
        "ingest", "coco", str(coco / "instances.json"), str(coco / "images"), str(tmp_path / "c.tl")
    )

    assert made.code == 0
    assert "boxes" in tl.open(str(tmp_path / "c.tl")).schema


@pytest.mark.parametrize(
    "arguments",
    [
        ("rosbag", "a", "b"),
        ("arrow", "a", "b"),
        ("images", "only-one"),
        ("coco", "a", "b", "dst.tl", "--schema", "types.json"),
        ("csv", "a", "dst.tl", "--schema", "no-such.json"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_written(
    run: Any, arguments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run("ingest", *arguments).code == 2
    assert list(tmp_path.iterdir()) == []


def test_tables_take_a_schema_from_a_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("kind,n\n1,2\n0,3\n")
    types = {"kind": {"kind": "class_label", "names": ["cat", "dog"]}, "n": "int8"}
    (tmp_path / "types.json").write_text(json.dumps(types))
    target = str(tmp_path / "x.tl")

    made = run(
        "ingest", "csv", str(tmp_path / "x.csv"), target, "--schema", str(tmp_path / "types.json")
    )

    ds = tl.open(target)
    assert made.code == 0
    assert (ds["kind"][:] == ["dog", "cat"]).all()
    assert ds["n"].dtype == "int8"


def test_arguments_of_a_kind_are_flags(run: Any, photos: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1;a\n2;b\n")

    table = run("ingest", "csv", str(tmp_path / "x.csv"), str(tmp_path / "x.tl"),
                "--delimiter", ";", "--names", "n,text")  # fmt: skip
    flat = run("ingest", "images", str(photos), str(tmp_path / "flat.tl"), "--no-labels")

    assert (table.code, flat.code) == (0, 0)
    assert tl.open(str(tmp_path / "x.tl"))["n"][:].tolist() == [1, 2]
    assert list(tl.open(str(tmp_path / "flat.tl")).schema) == ["image"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["imagez", "a", "b"], "unknown kind 'imagez'; did you mean 'images'?"),
        (
            ["images", "a", "b", "--task", "pose"],
            "does not support --task; its own options: --pattern, --labels",
        ),
        (
            ["numpy", "a", "b", "--names", "x"],
            "does not support --names; its own options: --schema",
        ),
    ],
)
def test_flags_of_another_kind_are_refused(run: Any, arguments: Any, told: Any) -> None:
    done = run("ingest", *arguments)

    assert done.code == 2
    assert told in done.err


def test_what_is_refused_can_be_put_aside(run: Any, photos: Any, tmp_path: Path) -> None:
    (photos / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    target = str(tmp_path / "pets.tl")

    made = run("ingest", "images", str(photos), target, "--on-error", "quarantine", "--json")

    assert json.loads(made.out)["quarantine"] == f"{target}-quarantine"
    assert tl.open(f"{target}-quarantine")["content"][:] == [b"\xff\xd8\xff"]


def test_a_dry_run_shows_schema_and_rows_and_writes_nothing(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("name,age\n" + "".join(f"n{i},{i}\n" for i in range(10)), encoding="utf-8")
    target = tmp_path / "table.tl"

    shown = run("ingest", "csv", str(table), str(target), "--dry-run")
    document = json.loads(run("ingest", "csv", str(table), str(target), "--dry-run", "--json").out)

    assert shown.code == 0
    assert "age" in shown.out
    assert [line for line in shown.lines if line.startswith("n")] == [
        "name  age",
        "n0    0",
        "n1    1",
        "n2    2",
    ]
    assert document["schema"]["age"] == "Scalar(int64)"
    assert [row["age"] for row in document["rows"]] == [0, 1, 2]
    assert not target.exists()


def test_a_split_is_wrong_usage_and_says_how_rows_are_split(run: Any, tmp_path: Path) -> None:
    failed = run("ingest", "images", str(tmp_path), str(tmp_path / "x.tl"), "--split", "0.9")

    assert failed.code == 2
    assert "ds.split({'train': 0.9, 'val': 0.1})" in failed.err
    assert not (tmp_path / "x.tl").exists()


def test_a_dry_run_counts_what_would_change(run: Any, photos: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "pets.tl")
    new = run("ingest", "images", str(photos), target, "--dry-run", "--json")
    assert json.loads(new.out)["changes"]["added"] == 3
    run("ingest", "images", str(photos), target)
    first, second = sorted((photos / "cat").glob("*.jpg"))
    (photos / "fox").mkdir()
    (photos / "fox" / "new.jpg").write_bytes(next((photos / "dog").glob("*.jpg")).read_bytes())
    first.write_bytes(second.read_bytes())
    second.unlink()
    dry = ("ingest", "images", str(photos), target, "--delete", "--dry-run")

    shown = run(*dry)
    changes = json.loads(run(*dry, "--json").out)["changes"]

    assert shown.code == 0
    counts = "1 image added, 1 updated, 1 unchanged, 1 no longer in the source"
    assert shown.out.startswith(f"{counts} → {target} main@1 (dry run: nothing was written)")
    assert "'label' has new classes: 'fox'" in shown.out
    assert "added: fox/new.jpg" in shown.out
    assert (changes["deleted"], changes["commits"], changes["dry_run"]) == (1, [], True)
    ds = tl.open(target)
    assert (ds.version, len(ds), ds["label"].names) == ("main@1", 3, ("cat", "dog"))
    done = json.loads(run(*dry[:-1], "--json").out)
    numbers = ("added", "updated", "unchanged", "vanished", "deleted", "renamed")
    assert {name: done[name] for name in numbers} == {name: changes[name] for name in numbers}


@pytest.mark.parametrize("key", [(), ("--key", "id")])
def test_a_dry_run_of_a_table_counts_its_rows(run: Any, tmp_path: Path, key: Any) -> None:
    table, target = tmp_path / "t.csv", str(tmp_path / "t.tl")
    table.write_text("id,x\na,1\nb,2\n")
    run("ingest", "csv", str(table), target, *key)
    table.write_text("id,x\na,1\nb,2\nc,3\n")

    shown = json.loads(run("ingest", "csv", str(table), target, *key, "--dry-run", "--json").out)

    assert (shown["changes"]["added"], shown["changes"]["unchanged"]) == (1, 2)
    assert len(tl.open(target)) == 2


def test_a_table_is_synced_by_its_key(run: Any, tmp_path: Path) -> None:
    table, target = tmp_path / "t.csv", str(tmp_path / "t.tl")
    table.write_text("id,x\na,1\nb,2\n")
    by_position = str(tmp_path / "p.tl")
    for url, key in ((target, ("--key", "id")), (by_position, ())):
        assert run("ingest", "csv", str(table), url, *key).code == 0
    table.write_text("id,x\nc,3\nb,5\na,1\n")

    synced = run("ingest", "csv", str(table), target, "--key", "id")
    refused = run("ingest", "csv", str(table), by_position)

    assert synced.out.startswith("1 row added, 1 updated, 1 unchanged;")
    assert refused.code == 1
    assert "--key id" in refused.err
    assert f"tensorlake rm {by_position}" in refused.err
    assert run("rm", by_position, "--yes").code == 0
    assert run("ingest", "csv", str(table), by_position, "--key", "id").code == 0


def test_classes_come_from_names_of_files(run: Any, photos: Any, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for at, image in enumerate(sorted(photos.rglob("*.jpg"))):
        (flat / f"{image.parent.name}_{at}.jpg").write_bytes(image.read_bytes())

    made = run("ingest", "images", str(flat), str(tmp_path / "f.tl"), "--pattern", "{label}_*.jpg")

    assert made.code == 0
    assert tl.open(str(tmp_path / "f.tl"))["label"].names == ("cat", "dog")


def test_a_cluster_is_an_engine_and_needs_the_extra(run: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    source, target = str(tmp_path / "x.csv"), str(tmp_path / "x.tl")
    if find_spec("ray") is not None:
        pytest.skip("Ray is installed")

    failed = run("ingest", "csv", source, target, "--engine", "ray")
    in_memory = run("ingest", "csv", source, "memory://cli-by-ray", "--engine", "ray")
    here = run("ingest", "csv", source, target, "--engine", "threads")

    assert failed.code == in_memory.code == 1
    assert "tensorlake ingest csv --engine ray needs the extra 'ray'" in failed.err
    assert "ingest it here: --engine threads" in in_memory.err
    assert here.code == 0, here.err
    assert run("ingest", "csv", source, target, "--engine", "processes").code == 2
