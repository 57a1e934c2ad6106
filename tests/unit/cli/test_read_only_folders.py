"""Commands that only read, and dry runs, in a folder that may not be written to."""

import tempfile
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.cli import main
from tests.support.nobody import as_nobody

COMMANDS = (  # noqa: SIM905 - as in a shell
    "info a --stats,ls .,ls . -l,head a,query a SELECT*,du a --unreferenced"
    ",du . --all --unreferenced,log a --graph,diff a main@1 main@2,branch a,tag a,lint a"
    ",check a,check . --all"
    ",merge a b --dry-run,pull fork --dry-run,optimize a --dry-run,expire a --keep-last=1 --dry-run"
    ",expire a --older-than=1d --dry-run,gc a --dry-run,gc . --all --dry-run,rm a --dry-run"
).split(",")


@pytest.fixture(scope="module")
def lake():
    with tempfile.TemporaryDirectory() as folder:
        with tl.create(f"{folder}/a", {"x": "int64"}) as ds:
            ds.extend({"x": range(5)})
            ds.commit("five")
            ds.tag("first")
            with ds.branch("b") as other:
                other.append({"x": 9})
                other.commit("one more")
            ds["x"][0] = 7
            ds.commit("changed")
        tl.fork(f"{folder}/a", f"{folder}/fork", "main@1").close()
        places = [Path(folder), *Path(folder).rglob("*")]
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        yield folder
        for place in places:
            place.chmod(0o755)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_only_reads_needs_no_right_to_write(run, lake, command):
    arguments = [
        lake if one == "." else f"{lake}/{one}" if one in {"a", "fork"} else one
        for one in command.split()
    ]

    owned = run(*arguments)  # and imports what may be closed to nobody
    ended = as_nobody(lambda: main(arguments))

    assert owned.code == 0, owned.err
    assert ended == "SystemExit: 0"
