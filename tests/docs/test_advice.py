"""Advice in messages can be followed: each call, keyword, command and flag that it names exists.

Messages are the string literals of the packages, docstrings excepted; where a message formats a
value, the text has an X in its place.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

import tensorlake as tl
from tensorlake.cli.program import app
from tensorlake.dataset.maintenance.check import CheckReport
from tensorlake.dataset.transform.map.report import MapReport
from tensorlake.loader import Loader

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tensorlake", "query/tensorlake_query", "server/tensorlake_server")
CLI = ROOT / "tensorlake" / "cli"

REPORTS = (CheckReport, MapReport, tl.ingest.IngestReport)
HOLDERS: dict[str, tuple[Any, ...]] = {
    "tl": (tl,),
    "ds": (tl.Dataset,),
    "view": (tl.View,),
    "loader": (Loader,),
    "diff": (tl.Diff,),
    "report": REPORTS,
}
DOTTED = re.compile(r"(?<![\w./-])(tl|ds|view|loader|diff|report)((?:\.[A-Za-z_]\w*)+)(\()?")
OF_COLUMN = re.compile(r"ds\[[^\]]+\]\.(\w+)(\()?")
COMMAND = re.compile(r"(?<![\w/-])tensorlake ([a-z][a-z-]*)([^`;\n]*)")
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
MODULES = re.compile(r"(?:[a-z_]+\.)+[a-z_]+")
"""A literal that is a module's name: of the loader, say."""

PROSE = {
    *("can", "cannot", "dataset", "datasets", "does", "first", "on", "orders", "reads", "server"),
    *("that", "viewer", "version", "is", "has", "with", "of", "and", "or", "in", "wrote", "needs"),
}
"""Words that follow the name of the project in a sentence."""


def without_docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk a module, but for its docstrings and the parts of formatted strings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for field in ("body",):
            body = getattr(node, field, None)
            for one in body if isinstance(body, list) else ():
                if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                    skipped.add(id(one.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
    return (node for node in ast.walk(tree) if id(node) not in skipped)


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Return every literal, with its place."""
    found: list[tuple[str, str]] = []
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in without_docstrings(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = (
                        one.value if isinstance(one, ast.Constant) else "X" for one in node.values
                    )
                    text = "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                else:
                    continue
                if not MODULES.fullmatch(text):
                    found.append((f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text))
    return tuple(found)


def keywords(text: str, start: int) -> list[str]:
    """Return the keywords of a call whose bracket was opened just before ``start``."""
    depth, quote, top = 1, "", ""
    for letter in text[start:]:
        if quote:
            quote = "" if letter == quote else quote
            continue
        if letter in "\"'":
            quote = letter
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            break
        top += letter if depth == 1 else " "
    return re.findall(r"(?:^|,)\s*(\w+)=(?!=)", top)


def member(holders: tuple[Any, ...], names: list[str]) -> Any:
    """Return what a chain of names reaches of one of the holders.

    Raises:
        AttributeError: None of them has it.
    """
    for holder in holders:
        one: Any = holder
        try:
            for name in names:
                static = inspect.getattr_static(one, name, None) if inspect.isclass(one) else None
                one = static if isinstance(static, property) else getattr(one, name)
                if isinstance(one, property) or one is None:
                    return None  # its value is another object's
        except AttributeError:
            continue
        return one
    raise AttributeError(".".join(names))


def misses_of_calls(place: str, text: str) -> Iterator[str]:
    """Name each call in a text that does not exist, or does not take a keyword given."""
    found = [(HOLDERS[one[1]], one[2][1:].split("."), one) for one in DOTTED.finditer(text)] + [
        ((tl.Tensor,), [one[1]], one) for one in OF_COLUMN.finditer(text)
    ]
    for holders, names, match in found:
        if "X" in names:
            continue  # formatted: of all importers, say
        try:
            called = member(holders, names)
        except AttributeError:
            yield f"{place}: {match[0]} does not exist"
            continue
        if match.group(match.lastindex or 0) != "(" or called is None or not callable(called):
            continue
        parameters = inspect.signature(called).parameters
        if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            continue
        for keyword in keywords(text, match.end()):
            if keyword not in parameters:
                yield f"{place}: {match[0]}…) takes no {keyword}="


@cache
def commands() -> dict[str, set[str]]:
    """The flags of every command."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group | typer.main.TyperGroup)
    return {name: flags_of(command) for name, command in group.commands.items()}


def flags_of(command: click.Command) -> set[str]:
    """Return the flags of a command, and of those within it."""
    within = command.commands.values() if hasattr(command, "commands") else ()
    flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    return flags.union(*map(flags_of, within))


def misses_of_commands(place: str, text: str) -> Iterator[str]:
    """Name each command of a text that does not exist, or lacks a flag given."""
    for match in COMMAND.finditer(text):
        name, rest = match[1], match[2]
        if name in PROSE:
            continue
        if name not in commands():
            yield f"{place}: tensorlake {name} is not a command"
            continue
        for flag in FLAG.findall(rest):
            if flag not in commands()[name] | {"--help", "--version"}:
                yield f"{place}: tensorlake {name} has no {flag}"


def test_every_call_that_a_message_names_exists_and_takes_its_keywords():
    misses = [miss for place, text in texts() for miss in misses_of_calls(place, text)]

    assert misses == []


def test_every_command_that_a_message_names_exists_with_its_flags():
    misses = [miss for place, text in texts() for miss in misses_of_commands(place, text)]

    assert misses == []


def test_every_flag_that_the_command_line_names_is_one_of_a_command():
    known = {flag for flags in commands().values() for flag in flags}
    known |= {"--help", "--version", "--place"}  # the last: of the server that show starts

    unknown = [
        f"{place}: {flag}"
        for place, text in texts()
        if place.startswith("tensorlake/cli/commands")
        for flag in FLAG.findall(text)
        if flag not in known
    ]

    assert unknown == []


def test_the_messages_are_looked_at():
    named = {one[0] for _, text in texts() for one in DOTTED.finditer(text)}

    assert len(named) > 80
    assert {"ds.discard(", "tl.copy(", "ds.refresh(", "tl.ingest.arrow("} <= named
    assert sum(bool(COMMAND.search(text)) for _, text in texts()) > 30


@pytest.mark.parametrize(
    "text",
    [
        "call ds.repear() first",
        "write ds.torch(batchsize=4)",
        "write tl.copy(X, X, mirrored=True)",
        "use tl.ingest.videos(src, dst)",
        "read ds['x'].to_nump(null=0)",
        "\nloader.load_state(state)",
    ],
)
def test_a_wrong_call_is_noticed(text):
    assert len([*misses_of_calls("here", text)]) == 1


@pytest.mark.parametrize("text", ["tensorlake chek URL", "run tensorlake check URL --fix"])
def test_a_wrong_command_is_noticed(text):
    assert len([*misses_of_commands("here", text)]) == 1


def test_right_advice_is_not_complained_of():
    right = "ds.refresh(keep_staged=True), ds[X].read(null=0), tl.open(X, version=X)"

    assert [*misses_of_calls("here", right)] == []
    assert [*misses_of_commands("here", "tensorlake check URL --repair")] == []
