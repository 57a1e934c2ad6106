"""log and diff: what happened to a dataset."""

import json

import pytest

import tensorlake as tl


def test_log_is_newest_first_and_ends_at_the_version_asked_for(run, pets):
    newest = json.loads(run("log", pets, "--json").out)
    older = json.loads(run("log", pets, "--at", "main@2", "--json").out)

    assert [commit["version"] for commit in newest[:3]] == ["main@3", "main@2", "main@1"]
    assert older == newest[1:]


def test_log_oneline_has_one_line_a_commit(run, pets):
    shown = run("log", pets, "--oneline", "-n", "2")

    assert [line.split()[0] for line in shown.lines] == ["main@3", "main@2"]
    assert "one more" in shown.lines[1]
    assert "+1 row" in shown.lines[1]


def test_log_leaves_out_commits_before_a_day(run, pets):
    assert run("log", pets, "--since", "2999-01-01", "--oneline").lines == []


def test_log_refuses_a_day_that_is_none(run, pets):
    refused = run("log", pets, "--since", "yesterday")

    assert refused.code == 2
    assert "'yesterday'" in refused.err


def test_log_names_a_check_that_was_added_or_dropped(run, tmp_path):
    url = str(tmp_path / "checked")
    with tl.create(url, {"x": "int64"}) as ds:
        ds.add_check("pos", "x > 0")
        ds.commit("a check")
        ds.alter_tensor("x", metadata={"unit": "m"})
        ds.commit("a unit")
        ds.drop_check("pos")
        ds.commit("no check")
        said = [commit.summary() for commit in ds.log()]

    assert said == ["check pos", "metadata of x", "check pos", "no change"]
    assert run("log", url, "--oneline").lines[0].endswith("  check pos")


def test_restore_of_the_newest_version_publishes_nothing(run, pets):
    same = run("restore", pets, "main")
    document = json.loads(run("restore", pets, "main@3", "--json").out)

    assert (same.code, same.out) == (
        0, "nothing to restore: main is main@3, the newest version\n",
    )  # fmt: skip
    assert document["version"] == tl.open(pets).version == "main@3"
    assert run("restore", pets, "main@2").out.startswith("main@4")


def test_diff_shows_rows_added_and_values_changed(run, pets):
    document = json.loads(run("diff", pets, "main@1", "--json").out)

    assert document["added"] == 1
    assert document["removed"] == 0
    assert document["updated"] == {}


def test_diff_between_two_versions_names_the_tensor_and_the_classes(run, pets):
    shown = run("diff", pets, "main@2", "main@3")

    assert shown.code == 0
    assert "label" in shown.out
    assert "cat → dog 1" in shown.out


def test_diff_exits_with_one_when_asked_to_and_something_differs(run, pets):
    assert run("diff", pets, "main@2", "--exit-code").code == 1
    assert run("diff", pets, "main@3", "--exit-code").code == 0
    assert run("diff", pets, "main@2", "--tensor", "score", "--exit-code").code == 0


@pytest.mark.parametrize("command", ["branch", "tag"])
def test_what_was_given_up_is_told_as_json(run, pets, command):
    run(command, pets, "tried")

    ended = run(command, pets, "--delete", "tried", "--yes", "--json")

    assert ended.code == 0
    assert json.loads(ended.out) == {"deleted": "tried"}


def test_text_of_a_commit_is_printed_without_what_a_terminal_obeys(run, pets):
    with tl.open(pets) as ds:
        ds["score"][0] = 0.75
        ds.commit("first\nnext \x1b[31mred\u202e")

    for arguments in (["log"], ["log", "--oneline"], ["log", "--graph"], ["info"]):
        shown = run(arguments[0], pets, *arguments[1:]).out

        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "[31mred" in shown or arguments == ["info"]
    assert json.loads(run("log", pets, "--json").out)[0]["message"].endswith("\x1b[31mred\u202e")
