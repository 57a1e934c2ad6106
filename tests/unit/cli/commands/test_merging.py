"""branch, tag, merge, restore, log --graph, diff --rows: versions from the command line."""

import json

import pytest

import tensorlake as tl


@pytest.fixture
def forked(pets) -> str:
    """pets with a branch fix that went apart from main@3."""
    with tl.open(pets) as ds, ds.branch("fix") as fix:
        fix["score"][0] = 0.75
        fix.delete([2])
        fix.commit("fix")
        ds["note"][1] = "ours"
        ds.commit("ours")
    return pets


def test_branches_are_listed_started_and_ended(run, pets):
    made = run("branch", pets, "fix", "--at", "main@2")
    listed = run("branch", pets)

    assert made.code == 0
    assert [line.split()[0] for line in listed.lines] == ["fix@1", "main@3"]
    refused = run("branch", pets, "--delete", "fix")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert run("branch", pets, "-d", "fix", "-y").code == 0
    assert [line.split()[0] for line in run("branch", pets).lines] == ["main@3"]
    assert run("branch", pets, "fix").code == 1


def test_tags_are_listed_made_and_given_up(run, pets):
    run("tag", pets, "v1", "--at", "main@2")
    run("tag", pets, "nightly", "--expires", "2999-01-01")

    assert run("tag", pets).lines == ["nightly  main@3  until 2999-01-01", "v1       main@2"]
    assert json.loads(run("tag", pets, "--json").out)[1] == {
        "name": "v1",
        "version": "main@2",
        "expires": None,
    }
    assert run("tag", pets, "-d", "v1", "--yes").code == 0
    assert len(run("tag", pets).lines) == 1


def test_a_branch_is_merged_and_the_graph_shows_it(run, forked):
    dry = run("merge", forked, "fix", "--dry-run")
    merged = run("merge", forked, "fix")

    assert dry.lines[0] == "main@4 + fix@2 → would be published   (from main@3)"
    assert merged.lines == [
        "main@4 + fix@2 → main@5   (from main@3)",
        " 1 row removed",
        " score  1 row updated",
    ]
    graph = [line.split("  ") for line in run("log", forked, "--graph").lines]
    assert [[part for part in line if part][:2] for line in graph[:6]] == [
        ["*", "main@5"],
        ["|\\"],
        ["| *", "fix@2"] if graph[2][0] == "| *" else ["* |", "main@4"],
        ["* |", "main@4"] if graph[2][0] == "| *" else ["| *", "fix@2"],
        ["| *", "fix@1"],
        ["|/"],
    ]
    assert [line[0] for line in graph[6:]] == ["*"] * 4
    assert len(run("log", forked, "--graph", "-n", "2").lines) == 3


def test_a_merge_that_conflicts_fails_and_a_side_can_be_preferred(run, forked):
    with tl.open(forked) as ds:
        ds["score"][0] = 0.1
        ds.commit("same cell")

    dry = run("merge", forked, "fix", "--dry-run", "--json")
    refused = run("merge", forked, "fix")
    both = run("merge", forked, "fix", "--ours", "--theirs")
    merged = run("merge", forked, "fix", "--theirs", "--json")

    assert (dry.code, refused.code, both.code, merged.code) == (1, 1, 2, 0)
    assert json.loads(dry.out)["conflicts"] == ["both changed 'score' of 1 row (0 of main@3)"]
    assert "ConflictError [conflict]: merging fix@2 into main@5" in refused.err
    assert json.loads(merged.out)["version"] == "main@6"


def test_a_dry_run_names_the_checks_that_a_merge_would_break(run, forked):
    with tl.open(forked, "fix") as fix:
        fix["score"][1] = -3.0
        fix.commit("a score below the minimum")
    with tl.open(forked) as ds:
        ds.add_check("minimum", "NOT score < -1")
        ds.commit("a check")
        before = ds.version

    dry = run("merge", forked, "fix", "--dry-run")
    document = json.loads(run("merge", forked, "fix", "--dry-run", "--json").out)
    refused = run("merge", forked, "fix")

    assert (dry.code, refused.code) == (1, 1)
    assert "would break the check 'minimum'" in dry.out
    assert document["version"] is None
    assert "ConstraintError" in refused.err
    assert tl.open(forked).version == before


def test_only_some_tensors_are_merged_into_a_branch(run, forked):
    merged = json.loads(
        run("merge", forked, "main", "--at", "fix", "--tensors", "note", "--json").out
    )

    assert merged["ours"] == "fix@2"
    assert merged["updated"] == {"note": 1}


def test_an_older_version_is_restored(run, pets):
    shown = run("restore", pets, "main@1")

    assert shown.lines[0].startswith("main@4")
    assert "restore main@1" in shown.out
    assert len(tl.open(pets)) == 2
    assert run("restore", pets, "main@99").code == 1


def test_a_difference_is_shown_row_by_row(run, forked):
    shown = run("diff", forked, "main@3", "fix", "--rows")
    document = json.loads(run("diff", forked, "main@3", "fix", "--rows", "--json").out)

    assert shown.lines[0] == "main@3 → fix@2"
    assert shown.lines[1].startswith("- row 2    image=png 8×6×3")
    assert shown.lines[2] == "~ row 0    score   0.5 → 0.75"
    assert document["rows"]["updated"] == {
        "score": [{"row_before": 0, "row_after": 0, "before": 0.5, "after": 0.75}]
    }
    assert document["rows"]["removed"][0]["_row"] == 2


def test_a_long_difference_is_cut_and_says_so(run, pets):
    with tl.open(pets) as ds:
        ds["score"][:] = [1, 2, 3]
        ds.commit("all")

    shown = run("diff", pets, "main@3", "--rows", "--limit", "1", "--tensor", "score")

    assert shown.lines[1:] == ["~ row 0    score   0.5 → 1", "  … 2 more: --limit 3"]


def test_a_fork_pulls_its_base(run, pets, tmp_path):
    fork = str(tmp_path / "fork.tl")
    assert run("fork", pets, fork).code == 0
    with tl.open(pets) as ds:
        ds["score"][0] = 77
        ds.commit("there")

    dry = run("pull", fork, "--dry-run", "--json")
    done = run("pull", fork)
    again = run("pull", fork)
    both = run("pull", fork, "--ours", "--theirs")

    assert (dry.code, done.code, again.code, both.code) == (0, 0, 0, 2)
    assert json.loads(dry.out)["version"] is None
    assert json.loads(dry.out)["updated"] == {"score": 1}
    assert "nothing to merge" in again.out
    with tl.open(fork) as ds:
        assert ds["score"][0] == 77


def test_the_size_of_a_fork_is_told_with_and_without_its_base(run, pets, tmp_path):
    fork = str(tmp_path / "fork.tl")
    run("fork", pets, fork)

    sizes = {
        one["kind"]: one["nbytes"] for one in json.loads(run("du", fork, "--json").out)["parts"]
    }
    of_base = {one["kind"] for one in json.loads(run("du", pets, "--json").out)["parts"]}

    assert sizes["branch"] > sizes["store"] == 0
    assert "store" not in of_base
    with tl.open(fork) as ds:
        ds["score"][0] = 0.5
        ds.commit("own")
    assert "own packs, without the base's" in run("du", fork).out
