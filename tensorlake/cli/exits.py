"""Exit codes of the commands, and how failures are reported.

    0    success
    1    error, or a check found a problem; stderr has the error message of the SDK
    2    usage error (typer's own)
    130  Ctrl-C

Messages name commands and options in place of the SDK's calls and arguments:

    on_error='skip'                      --on-error skip
    mode='append', delete=True           --append, --delete
    schema={'x': tl.Text()}              --schema FILE with {"x": {"kind": "text", …}}
    tl.delete('a.tl', confirm='a.tl')    tensorlake rm a.tl

Only failures that a user can act on are caught: tensorlake's own errors and those of the operating
system. Anything else is a bug of ours and keeps its traceback.
"""

import ast
import functools
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec

import typer

import tensorlake as tl
from tensorlake.cli.output import print_text
from tensorlake.errors import TensorlakeError

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "described",
    "exits_cleanly",
    "fail",
    "in_shell",
    "ingest_in_shell",
    "wrong_usage",
]

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

P = ParamSpec("P")
_QUOTED = r"(?:'([^'\n]*)'|\"([^\"\n]*)\")"
_CALLS = (
    (re.compile(rf"tl\.delete\({_QUOTED}, confirm=[^)\n]*\)"), "tensorlake rm {}"),
    (re.compile(rf"(?<!= )tl\.open\({_QUOTED}\)"), "tensorlake info {}"),
    (re.compile(rf"tl\.list\({_QUOTED}\)"), "tensorlake ls {}"),
)
_INGEST = re.compile(r"tl\.ingest\.(\w+)\(('[^']*'), url\)")
_BY_RAY = re.compile(r"tl\.ingest\.(\w+)\(engine='ray'\)")
_SCHEMA = re.compile(r"schema=(\{.*?\})(?=[\s,;.]|$)")
_FLAGS = {
    "delete=True": "--delete",
    "verify=True": "--verify",
    "labels=False": "--no-labels",
    "masks=False": "--no-masks",
    "mode='append'": "--append",
    "mode='create'": "no --append",
}
_PLAIN = str.maketrans("", "", "'\" ")
_CODE = re.compile(r"ds = tl\.open\(.*?ds\.commit\([^)\n]*\)")
_FLAG = re.compile("|".join(map(re.escape, _FLAGS)))
_OPTION = re.compile(
    r"\b(on_error|on_conflict|engine|key|pattern|delimiter|encoding|task|columns|names)="
    rf"(?:{_QUOTED}|(…)|\[([^\]\n]*)\])"
)


def exits_cleanly(command: Callable[P, None]) -> Callable[P, None]:
    """Turn a command's failures into a message and an exit code."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()  # a closed pipe fails here, not at interpreter shutdown
        except TensorlakeError as error:
            if kwargs.get("verbose"):
                traceback.print_exception(error)
            is_ingestion = command.__name__ == "ingest"
            fail(described(error, is_ingestion=is_ingestion), cause=error)
        except BrokenPipeError:
            # The reader (head, less) has closed the pipe: discard whatever is still buffered.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            fail(f"{type(error).__name__}: {error}", cause=error)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return guarded


def described(error: TensorlakeError, *, is_ingestion: bool = False) -> str:
    """Prefix the message with name and code; a query's message already has code and position."""
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__[0] != "_")
    text = (ingest_in_shell if is_ingestion else in_shell)(str(error))
    return f"{name} {text}" if text.startswith("[") else f"{name} [{error.code}]: {text}"


def fail(message: str, *, cause: BaseException | None = None) -> NoReturn:
    """Print to stderr why the command failed, and end it."""
    print_text(message, file=sys.stderr)
    raise typer.Exit(FAILED) from cause


def wrong_usage(message: str) -> NoReturn:
    """Print to stderr which arguments were wrong, and end the command."""
    print_text(f"Error: {message}", file=sys.stderr)
    raise typer.Exit(WRONG_USAGE)


def in_shell(text: str) -> str:
    """Name commands where a message names calls.

    >>> in_shell("to start over: tl.delete('a.tl', confirm='a.tl')")
    'to start over: tensorlake rm a.tl'
    """
    text = _INGEST.sub(r"tensorlake ingest \1 \2 URL", text)
    text = text.replace("tl.create(url, schema)", "tensorlake ingest KIND SRC URL")
    text = _CODE.sub(
        lambda found: f"python -c {_quoted(f'import {tl.__name__} as tl; ' + found[0])}", text
    )
    for call, command in _CALLS:
        text = call.sub(lambda found, command=command: command.format(_argument(found)), text)
    return text


def ingest_in_shell(text: str) -> str:
    """Name the options of ``tensorlake ingest`` where a message names arguments.

    >>> ingest_in_shell("to skip it: on_error='skip'; to remove: delete=True; by key='id'")
    'to skip it: --on-error skip; to remove: --delete; by --key id'
    """
    text = _SCHEMA.sub(lambda found: f"--schema FILE{_types(found[1])}", in_shell(text))
    text = _BY_RAY.sub(r"tensorlake ingest \1 --engine ray", text)
    text = _FLAG.sub(lambda found: _FLAGS[found[0]], text)
    return _OPTION.sub(_option, text)


def _quoted(code: str) -> str:
    return shlex.quote(code) if '"' in code else f'"{code}"'


def _argument(found: re.Match[str]) -> str:
    return shlex.quote(next(one for one in found.groups() if one is not None))


def _option(found: re.Match[str]) -> str:
    name, *values = found.groups()
    listed = values.pop()
    option = f"--{name.replace('_', '-')}"
    if listed is not None:
        return f"{option} {listed.translate(_PLAIN)}"
    value = next(one for one in values if one is not None)
    return f"{option} {value if value == '…' else shlex.quote(value)}"


def _types(written: str) -> str:
    """Return the content of a file of types, given them in Python; nothing if it names none."""
    try:
        given = ast.parse(written, mode="eval").body
        assert isinstance(given, ast.Dict)
        pairs = zip(given.keys, given.values, strict=True)
        types = {ast.literal_eval(key): _type(value) for key, value in pairs if key is not None}
    except (SyntaxError, ValueError, AssertionError, AttributeError, tl.TensorlakeError):
        return ""
    return f" with {json.dumps(types)}" if types else ""


def _type(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    assert isinstance(node.func, ast.Attribute)
    kind = getattr(tl, node.func.attr)
    keywords = {one.arg: ast.literal_eval(one.value) for one in node.keywords if one.arg}
    return kind(*map(ast.literal_eval, node.args), **keywords).to_json()
