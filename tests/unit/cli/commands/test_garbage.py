"""gc and expire: what they ask, what they print, what they leave."""

import json

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of


def test_expire_gives_up_old_versions_and_says_which(run, pets):
    shown = run("expire", pets, "--keep-last", "1", "--yes")

    assert shown.code == 0
    assert shown.lines == ["expired main@0 … main@2; main@3 and later are kept"]
    assert tl.open(pets).version == "main@3"


def test_expire_dry_run_changes_nothing(run, pets):
    told = run("expire", pets, "--keep-last", "2", "--dry-run")
    again = json.loads(run("expire", pets, "--keep-last", "2", "--dry-run", "--json").out)

    assert told.lines == ["would expire main@0 … main@1; main@2 and later are kept"]
    assert again["given_up"] == [{"branch": "main", "start": 0, "stop": 2}]


def test_expire_needs_to_be_told_what_is_old(run, pets):
    refused = run("expire", pets, "--yes")

    assert refused.code == 1
    assert "older_than" in refused.err


@pytest.mark.parametrize("time", ["90", "d", "3 months"])
def test_expire_refuses_what_is_no_span_of_time(run, pets, time):
    refused = run("expire", pets, "--older-than", time, "--yes")

    assert refused.code == 1
    assert repr(time) in refused.err


def test_gc_reports_what_it_removed(run, pets):
    shown = run("gc", pets, "--yes")
    document = json.loads(run("gc", pets, "--yes", "--json").out)

    assert shown.code == 0
    assert shown.out.startswith("deleted 0 packs (0 bytes) that no version needs; 3 packs")
    assert document["kept_packs"] == 3
    assert document["is_dry_run"] is False


def test_gc_dry_run_leaves_no_fence(run, pets):
    shown = run("gc", pets, "--dry-run")

    assert shown.out.startswith("would delete 0 packs")
    assert session_of(tl.open(pets)).head.seq == 3


@pytest.mark.parametrize("command", [("expire", "--keep-last", "1")])
def test_without_a_terminal_nothing_is_given_up_unasked(run, pets, command):
    name, *flags = command

    refused = run(name, pets, *flags)

    assert refused.code == 2
    assert "--yes" in refused.err
    assert session_of(tl.open(pets)).head.seq == 3


def test_gc_with_nothing_to_delete_does_not_ask(run, pets):
    assert run("gc", pets).code == 0


def test_quiet_prints_nothing(run, pets):
    assert run("gc", pets, "--yes", "--quiet").out == ""
    assert run("expire", pets, "--keep-last", "1", "--yes", "-q").out == ""
