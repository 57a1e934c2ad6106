"""check, optimize, copy: what they print, and how they end."""

import json

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.format import head_path
from tensorlake.storage import runtime


def spoil_hint(url: str) -> None:
    runtime.run(session_of(tl.open(url)).store.put(head_path("main"), b"nonsense"))


def test_check_of_a_whole_dataset_ends_well(run, pets):
    shown = run("check", pets, "--decode")

    assert shown.code == 0
    assert shown.lines[0] == f"{pets}: no problems found"
    assert "samples decoded" in shown.out


def test_check_ends_with_1_when_anything_is_found(run, pets):
    spoil_hint(pets)

    shown = run("check", pets, "--quick")

    assert shown.code == 1
    assert "1 warning" in shown.out
    assert "branches/main/HEAD" in shown.out


def test_check_prints_one_document_of_findings(run, pets):
    spoil_hint(pets)

    (finding,) = json.loads(run("check", pets, "--json").out)["findings"]

    assert finding["object"] == "branches/main/HEAD"
    assert set(finding) == {"object", "offset", "what", "severity", "advice"}


def test_check_repair_says_what_it_mended(run, pets):
    spoil_hint(pets)

    shown = run("check", pets, "--repair")

    assert shown.code == 0
    assert "recovered: branches/main/HEAD" in shown.out


def test_check_of_nothing_fails(run):
    shown = run("check", "memory://cli-nothing-to-check")

    assert shown.code == 1
    assert "no tensorlake dataset" in shown.err


def test_optimize_says_what_it_would_do_and_does_it(run, pets):
    told = run("optimize", pets, "--dry-run")
    done = run("optimize", pets)
    again = run("optimize", pets)

    assert "would be" in told.lines[0]
    assert "are now" in done.lines[0]
    assert "is optimal already" in again.lines[0]
    assert tl.open(pets).version == "main@4"


def test_optimize_puts_rows_in_another_order(run, pets):
    document = json.loads(run("optimize", pets, "--order-by", "label DESC", "--json").out)

    assert document["commits"] == 1
    assert tl.open(pets)["label"][:].tolist() == sorted(tl.open(pets)["label"][:], reverse=True)


def test_optimize_of_a_commit_is_refused(run, pets):
    refused = run("optimize", pets, "--at", "main@1")

    assert refused.code == 1
    assert refused.err.startswith("ReadOnlyError [read-only]")


def test_copy_copies_and_the_second_time_has_nothing_to_do(run, pets):
    target = f"{pets}-copy"

    first = run("copy", pets, target)
    second = json.loads(run("copy", pets, target, "--json").out)

    assert first.lines[0].startswith(f"copied {pets} to {target}")
    assert (second["packs"], second["entries"]) == (0, 0)
    assert tl.open(target).version == tl.open(pets).version


def test_copy_takes_a_number_of_workers(run, pets):
    assert run("copy", pets, f"{pets}-two", "--workers", "2").code == 0
    assert tl.open(f"{pets}-two").version == tl.open(pets).version
    refused = run("copy", pets, f"{pets}-none", "--workers", "0")
    assert refused.code == 2
    assert "--workers" in refused.err


def test_copy_of_one_version_and_dry_run(run, pets):
    target = f"{pets}-one"

    told = run("copy", pets, target, "--no-history", "--at", "main@2", "--dry-run")
    assert not tl.exists(target)
    done = run("copy", pets, target, "--no-history", "--at", "main@2")

    assert told.lines[0].startswith(f"would copy main@2 of {pets}")
    assert "1 log entry" in done.lines[0]


def test_copy_mirror_is_brought_up_to_date(run, pets):
    target = f"{pets}-mirror"
    run("copy", pets, target, "--mirror")
    with tl.open(pets).transaction("fewer") as ds:
        ds.delete([0])

    again = run("copy", pets, target, "--mirror")

    assert again.lines[0].startswith("mirrored")
    assert len(tl.open(target)) == len(tl.open(pets))


def test_advice_names_commands(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()

    of_files = run("info", str(tmp_path / "photos"))
    of_nothing = run("info", str(tmp_path / "none.tl"))

    assert "tensorlake ingest images" in of_files.err
    assert "tensorlake ingest KIND SRC URL" in of_nothing.err
    assert "tl.ingest" not in of_files.err
