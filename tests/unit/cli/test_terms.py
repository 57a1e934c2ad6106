"""What every command shares: how a store is reached, how much is said."""

import asyncio
import logging
import os
from importlib import import_module

import pytest

import tensorlake as tl
from tensorlake.storage.concurrency.retry import Surroundings


def test_a_token_is_where_the_sdk_looks_for_it(run, pets, monkeypatch):
    monkeypatch.setenv("TENSORLAKE_TOKEN", "another")

    assert run("info", pets, "--token", "secret", "--schema").code == 0
    assert os.environ["TENSORLAKE_TOKEN"] == "secret"


def test_a_server_that_nobody_answers_for_is_a_failure_without_a_traceback(run, monkeypatch):
    monkeypatch.setenv("TENSORLAKE_TOKEN", "secret")
    at_once = Surroundings(sleep=lambda _: asyncio.sleep(0))
    monkeypatch.setattr(
        import_module("tensorlake.storage.concurrency.retry"), "Surroundings", lambda: at_once
    )

    failed = run("info", "http://127.0.0.1:9/pets", "--token", "secret")

    assert failed.code == 1
    assert "Error [" in failed.err
    assert "secret" not in failed.err


def test_a_profile_is_refused_for_what_is_not_on_s3(run, pets):
    refused = run("info", pets, "--profile", "dev")

    assert refused.code == 2
    assert "--profile applies to s3:// only" in refused.err


def test_an_endpoint_is_refused_for_a_folder(run, tmp_path):
    refused = run("info", str(tmp_path), "--endpoint-url", "http://localhost:9")

    assert refused.code == 2
    assert "--endpoint-url applies to object stores" in refused.err


@pytest.mark.parametrize("command", [("copy",), ("ingest", "images")])
@pytest.mark.parametrize("option", [("--endpoint-url", "http://localhost:9"), ("--profile", "dev")])
def test_an_option_of_stores_is_refused_between_two_folders(run, tmp_path, command, option):
    refused = run(*command, str(tmp_path / "source"), str(tmp_path / "out"), *option)

    assert refused.code == 2
    assert f"{option[0]} applies to" in refused.err


@pytest.mark.parametrize("places", [("s3://nothing/a", "out"), ("out", "s3://nothing/a")])
def test_a_profile_is_for_whichever_of_two_places_is_on_s3(run, places):
    failed = run("copy", *places, "--profile", "no such")

    assert failed.code == 1
    assert "profile 'no such' cannot be used" in failed.err


def test_what_is_not_there_is_not_said_to_lie_beside_a_dot(run, pets):
    failed = run("info", f"{pets}/nope")

    assert failed.code == 1
    assert "beside it" not in failed.err


def test_the_endpoint_is_one_of_the_storage_options(run, pets):
    told = run("info", pets, "--endpoint-url", "http://localhost:9", "--storage-option", "nonsense")

    assert told.code == 2
    assert "KEY=VALUE" in told.err


def test_verbose_shows_where_a_failure_came_from_and_the_plain_run_does_not(run, tmp_path):
    plain = run("info", str(tmp_path / "none"))
    verbose = run("info", str(tmp_path / "none"), "-v")

    assert "Traceback" not in plain.err
    assert "Traceback" in verbose.err
    assert verbose.code == plain.code == 1


def test_verbose_shows_the_log(run, pets):
    logger = logging.getLogger("tensorlake")
    try:
        assert run("info", pets, "-vv").code == 0
        assert logger.level == logging.DEBUG
        assert logger.handlers
    finally:
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


def test_verbose_and_quiet_exclude_each_other(run, pets):
    assert run("info", pets, "-v", "-q").code == 2


def test_quiet_leaves_out_notes_but_not_the_answer(run, pets):
    shown = run("query", pets, "SELECT label", "-n", "1", "-q")

    assert len(shown.lines) == 2
    assert shown.err == ""


def test_quiet_says_nothing_of_what_was_done(run, pets):
    tl.open(pets).branch("fix").close()

    assert run("gc", pets, "--yes", "-q").out == ""
    assert run("optimize", pets, "-q").out == ""


@pytest.mark.parametrize("command", ["info", "query", "gc", "copy", "ingest"])
def test_commands_explain_the_shared_options_after_their_own(run, command):
    shown = run(command, "--help").out

    for flag in ("--storage-option", "--profile", "--token", "--quiet", "--no-progress"):
        assert flag in shown
    assert shown.index("--json") < shown.index("--storage-option")
