"""The program itself: exit codes, help, and the page that describes it."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
import typer

import tensorlake as tl
from tensorlake.cli import main
from tensorlake.cli.program import app

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = sorted(
    command.callback.__name__
    for command in app.registered_commands
    if not command.hidden and command.callback is not None
)


def test_version_is_that_of_the_distribution(run):
    assert re.fullmatch(r"tensorlake \d+\.\d+\.\d+\S*\n", run("--version").out)


def test_a_dataset_that_is_not_there_fails_with_the_words_of_the_sdk(run, tmp_path):
    failed = run("info", str(tmp_path / "nothing"))

    assert failed.code == 1
    assert failed.out == ""
    assert failed.err.startswith("DatasetNotFoundError [dataset-not-found]: ")
    assert "nothing" in failed.err


def test_a_version_that_is_not_there_fails(run, pets):
    failed = run("info", pets, "--at", "v9")

    assert failed.code == 1
    assert failed.err.startswith("VersionNotFoundError [version-not-found]: ")


@pytest.mark.parametrize(
    "arguments",
    [("frobnicate",), ("info",), ("info", "memory://x", "--nonsense"), ("head", "x", "-n", "many")],
)
def test_wrong_usage_exits_with_two(run, arguments):
    assert run(*arguments).code == 2


def test_a_storage_option_without_a_value_is_wrong_usage(run, pets):
    refused = run("info", pets, "--storage-option", "region")

    assert refused.code == 2
    assert "KEY=VALUE" in refused.err


def test_ctrl_c_exits_with_130(run, pets, monkeypatch):
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin.read", interrupted, raising=False)

    assert run("query", pets, "-").code == 130


@pytest.mark.slow  # a process that starts from nothing
def test_a_reader_that_closes_the_pipe_is_no_failure(tmp_path):
    with tl.create(str(tmp_path / "many.tl"), {"x": "int64"}) as ds:
        ds.extend({"x": np.arange(20000)})
        ds.commit("many")
    command = [sys.executable, "-m", "tensorlake", "query", "many.tl", "SELECT x", "-n", "0"]
    with subprocess.Popen(
        [*command, "--format", "jsonl"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait(timeout=150)

    assert errors == ""
    assert code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_names_every_flag_of_a_command(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")

    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--help"}

    assert f"`{command} " in page
    assert {flag for flag in flags if flag not in page} == set()


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("cache", "ls"), "loader.close()"),
        (("cache", "clear", "--older-than", "1d"), "cache='4GiB'"),
    ],
)
def test_a_command_of_a_later_version_says_what_there_is_instead(run, arguments, instead):
    answer = run(*arguments)

    assert answer.code == 1
    assert answer.err.startswith("UnsupportedFeatureError")
    assert instead in answer.err
    assert arguments[0] not in run("--help").out.split()


def _leaves(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from _leaves(command, *path, name)


PROGRAM = typer.main.get_group(app)
ALL_COMMANDS = dict(_leaves(PROGRAM))


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example_that_parses(path, capsys):
    with pytest.raises(SystemExit):
        main([*path, "--help"])
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    [example] = re.findall(r"^\s*Example: (tensorlake .*?)\s*$", text, re.MULTILINE)
    _, *arguments = shlex.split(example)

    assert tuple(arguments[: len(path)]) == path
    group, context = PROGRAM, click.Context(PROGRAM, info_name="tensorlake")
    while arguments:
        name, command, arguments = group.resolve_command(context, arguments)
        context = command.make_context(name, arguments, parent=context)
        if not isinstance(command, click.Group):
            break
        group, arguments = command, [*context.protected_args, *context.args]


@pytest.mark.parametrize(
    "command",
    ["rm URL", "branch URL -d fix", "tag URL -d v1", "runs rm URL r1", "expire URL --keep-last 1"],
)
def test_a_question_without_a_terminal_names_options_that_the_command_has(run, pets, command):
    with tl.open(pets) as ds:
        ds.branch("fix").close()
        ds.tag("v1")
        with ds.run("r1"):
            pass
    name, *arguments = [pets if one == "URL" else one for one in command.split()]

    refused = run(name, *arguments)

    named = set(re.findall(r"--[a-z-]+", refused.err.rpartition("pass ")[2]))
    offered = set(re.findall(r"--[a-z-]+", run(*command.split()[: 1 + (name == "runs")], "-h").out))
    assert refused.code == 2
    assert "--yes" in named
    assert named <= offered


@pytest.mark.slow
def test_the_examples_that_only_read_run_as_they_are(run, tmp_path, monkeypatch, pets):
    tl.copy(pets, str(tmp_path / "pets.tl"))
    monkeypatch.chdir(tmp_path)
    read_only = "info ls head query du log diff branch tag merge check optimize expire gc rm doctor"

    for name in read_only.split():
        help_text = ALL_COMMANDS[(name,)].help or ""
        _, *arguments = shlex.split(help_text.rpartition("Example: ")[2])
        ended = run(*arguments)
        assert ended.code == 0, f"{name}: {ended.err}"


def test_a_file_of_flows_is_not_run_without_their_extra(run, monkeypatch, tmp_path):
    flows = tmp_path / "arrivals.py"
    flows.write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()")
    monkeypatch.setenv("TENSORLAKE_FLOWS", str(tmp_path / "flows.sqlite"))
    monkeypatch.setattr("tensorlake.cli.commands.flows.find_spec", lambda _name: None)

    refused = run("flows", "run", str(flows))

    assert refused.code == 1
    assert "pip install 'tensorlake-dl[flows]'" in refused.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "arguments", [("list",), ("inspect", "x"), ("retry", "x"), ("cancel", "x"), ("approve", "x")]
)
def test_a_question_about_flows_makes_no_database(run, monkeypatch, tmp_path, arguments):
    monkeypatch.setattr("tensorlake.workloads.flows.database._chosen", {})
    place = tmp_path / "mistyped.sqlite"

    refused = run("flows", *arguments, "--database", str(place))

    assert refused.code == 1
    assert f"there is no database of flows {str(place)!r}" in refused.err
    assert not place.exists()


def test_ctrl_c_while_the_program_is_imported_ends_it_quietly():
    code = """
import sys, tensorlake.cli
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name.startswith("tensorlake.cli.program"):
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
tensorlake.cli.main(["--help"])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
