"""Exit codes of the commands, and how failures are reported.

    0    success
    1    error, or a check found a problem; stderr has the error message of the SDK
    2    usage error (typer's own)
    130  Ctrl-C

Only failures that a user can act on are caught: tensorlake's own errors and those of the operating
system. Anything else is a bug of ours and keeps its traceback.
"""

import functools
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, ParamSpec

import typer

from tensorlake.errors import TensorlakeError

__all__ = ["FAILED", "INTERRUPTED", "exits_cleanly", "fail", "wrong_usage"]

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

P = ParamSpec("P")
_IN_PYTHON = re.compile(r"tl\.ingest\.(\w+)\(('[^']*'), url\)")
"""Advice of the SDK that a shell has a command for."""


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
            fail(_first_line(error), cause=error)
        except BrokenPipeError:
            # The reader (head, less) has closed the pipe: discard whatever is still buffered.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            fail(f"{type(error).__name__}: {error}", cause=error)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return guarded


def _first_line(error: TensorlakeError) -> str:
    """Prefix the message with name and code; a query's message already has code and position."""
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__[0] != "_")
    text = _IN_PYTHON.sub(r"tensorlake ingest \1 \2 URL", str(error))
    text = text.replace("tl.create(url, schema)", "tensorlake ingest KIND SRC URL")
    return f"{name} {text}" if text.startswith("[") else f"{name} [{error.code}]: {text}"


def fail(message: str, *, cause: BaseException | None = None) -> NoReturn:
    """Print to stderr why the command failed, and end it."""
    print(message, file=sys.stderr)
    raise typer.Exit(FAILED) from cause


def wrong_usage(message: str) -> NoReturn:
    """Print to stderr which arguments were wrong, and end the command."""
    print(f"Error: {message}", file=sys.stderr)
    raise typer.Exit(WRONG_USAGE)
