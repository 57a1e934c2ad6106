"""ls -R, du, rm, doctor: what lies where, and whether it could."""

import json
import tomllib
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.dataset.display.viewer import viewer_page
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import open_store, runtime

ROOT = Path(__file__).resolve().parents[4]


def test_ls_shows_folders_and_with_r_what_is_in_them(run, pets):
    lake = pets.removesuffix("/pets")
    tl.create(f"{lake}/old/pets", {"x": "int64"}).close()

    assert run("ls", lake).lines == ["old/", "pets"]
    assert run("ls", lake, "-R").lines == ["old/pets", "pets"]
    assert run("ls", lake, "-l").lines[2].split()[:2] == ["old/", "1"]
    documents = [json.loads(line) for line in run("ls", lake, "-lR", "--jsonl").lines]
    assert [(one["name"], one["rows"]) for one in documents] == [("old/pets", 0), ("pets", 3)]


def test_ls_sorts_by_time_without_being_asked_for_the_long_form(run, pets):
    lake = pets.removesuffix("/pets")
    tl.create(f"{lake}/newer", {"x": "int64"}).close()

    lines = run("ls", lake, "--sort", "time").lines

    assert [line.split()[0] for line in lines[1:]] == ["newer", "pets"]


def test_head_prints_a_row_a_line(run, pets):
    rows = [json.loads(line) for line in run("head", pets, "-c", "label", "--jsonl").lines]

    assert rows == [{"label": "cat"}, {"label": "dog"}, {"label": "dog"}]


def test_du_is_by_tensor_branch_and_tag(run, pets):
    with tl.open(pets) as ds:
        ds.tag("v1", at="main@1")
        ds.branch("fix").close()

    parts = json.loads(run("du", pets, "--json").out)["parts"]
    nbytes = {(part["kind"], part["name"]): part["nbytes"] for part in parts}

    tensors = sum(size for (kind, _), size in nbytes.items() if kind == "tensor")
    assert tensors == nbytes["branch", "main"] == nbytes["branch", "fix"]
    assert 0 < nbytes["tag", "v1"] < nbytes["branch", "main"]
    assert "store" not in {kind for kind, _ in nbytes}


def test_du_unreferenced_counts_what_the_store_holds(run, pets):
    with tl.open(pets) as ds:
        ds.append({name: ds[0][name] for name in ds.tensors})
        ds.discard()
    shown = run("du", pets, "--unreferenced")

    assert shown.code == 0
    kinds = [line.split()[2:] for line in shown.lines if " store " in line]
    assert kinds == [
        ["store", "all", "packs"],
        ["store", "gc", "would", "remove", "now"],
        ["store", "unreferenced,", "but", "young"],
    ]


def test_rm_removes_nothing_without_a_terminal(run, pets):
    unasked = run("rm", pets)

    assert unasked.code == 2
    assert "--name pets" in unasked.err
    assert tl.exists(pets)


@pytest.mark.parametrize("flags", [(), ("--yes",), ("--dry-run",)])
def test_rm_refuses_another_name_whatever_else_is_given(run, pets, flags):
    other = run("rm", pets, "--name", "pots", *flags)

    assert (other.code, other.out) == (2, "")
    assert f"--name 'pots' is not 'pets', the name of {pets}: nothing was deleted" in other.err
    assert tl.exists(pets)


def test_rm_only_looks_in_a_dry_run(run, pets):
    assert run("rm", pets, "--dry-run").out.startswith(f"would delete {pets}: 3 rows")
    assert tl.exists(pets)


def test_rm_leaves_and_names_other_files(run, pets):
    for name in ("NOTES.txt", "cats/1.jpg"):
        runtime.run(open_store(pets).put(name, b"mine"))
    kept = "what is not the dataset's: NOTES.txt, cats/"

    assert run("rm", pets, "--dry-run").lines[1] == f"would leave {kept}"
    assert run("rm", pets, "--name", "pets").lines[1] == f"left {kept}"
    assert runtime.run(open_store(pets).get("cats/1.jpg")) == b"mine"


def test_rm_removes_the_dataset_when_it_is_named(run, pets):
    assert run("rm", pets, "--name", "pets").out.startswith(f"deleted {pets}: 3 rows")
    assert not tl.exists(pets)
    again = run("rm", pets, "--yes")
    assert again.code == 1
    assert again.err.startswith("DatasetNotFoundError")


def test_rm_removes_what_a_stopped_deletion_left(run, pets):
    runtime.run(open_store(pets).delete(DESCRIPTOR))

    assert run("info", pets).err.startswith("DatasetNotFoundError")
    assert "not a dataset" in run("rm", pets, "--dry-run").out
    assert run("rm", pets, "--name", "pets").code == 0
    assert tl.create(pets, {"x": "int64"}).version == "main@0"


def test_cp_is_copy(run, pets):
    assert run("cp", pets, f"{pets}-copy", "-q").code == 0
    assert len(tl.open(f"{pets}-copy")) == 3


def test_doctor_makes_no_folder_that_is_not_there(run, tmp_path):
    found = run("doctor", str(tmp_path / "nope"))

    assert found.code == 1
    assert f"there is no folder {str(tmp_path / 'nope')!r}" in found.out
    assert not (tmp_path / "nope").exists()


def test_doctor_prints_a_message_of_two_lines_on_one(run):
    shown = run("doctor", "nowhere://lake").lines[-1]

    assert shown.startswith("failed ")
    assert "\N{REPLACEMENT CHARACTER}" not in shown


def test_doctor_says_what_is_installed(run):
    found = {one["what"]: one for one in json.loads(run("doctor", "--json").out)}

    assert found["tensorlake"]["detail"].startswith(tl.__version__)
    assert found["numpy"]["state"] == "ok"
    assert found["extra 'torch'"]["state"] in {"ok", "absent"}


def test_doctor_says_whether_the_viewer_is_built(run):
    found = {one["what"]: one for one in json.loads(run("doctor", "--json").out)}

    assert found["viewer"]["state"] == ("ok" if viewer_page().is_file() else "absent")


def test_doctor_tries_a_store_and_leaves_nothing_there(run, tmp_path):
    report = tmp_path / "report.txt"
    (tmp_path / "lake").mkdir()

    shown = run("doctor", str(tmp_path / "lake"), "--report", str(report))

    assert shown.code == 0
    states = {line.split()[1]: line.split()[0] for line in shown.lines}
    assert states["put-if-absent"] == states["latency"] == states["speed"] == "ok"
    assert states["clock"] == "ok"
    assert report.read_text(encoding="utf-8") == shown.out
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == []


def test_doctor_fails_where_a_store_cannot_be_named(run):
    failed = run("doctor", "nfs://host/lake")

    assert failed.code == 1
    assert any(line.startswith("failed") and "nfs" in line for line in failed.lines)


def test_doctor_looks_for_each_extra_that_a_user_can_install(run):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    extras = {name for name, needs in optional.items() if needs} - {"all", "dev"}

    said = {one["what"] for one in json.loads(run("doctor", "--json").out)}

    assert {f"extra {extra!r}" for extra in extras} <= said
