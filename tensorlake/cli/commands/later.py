"""Commands that a later version brings: refused by name, with what there is instead."""

from collections.abc import Callable

import typer

from tensorlake.cli.exits import exits_cleanly
from tensorlake.errors import UnsupportedFeatureError

__all__ = ["LATER", "register_later"]

LATER = {
    "cache": "no chunk is kept on a disk in this version, so there is nothing to list or clear"
    "\nloaders keep chunks in memory: ds.torch(cache='4GiB'), and loader.close() gives it back",
    "flows": "durable flows come in a later version"
    "\ningest, copy, map and export go on where they were stopped: run the same call again",
}
"""Why each is not there, and what to do."""


def register_later(app: typer.Typer) -> None:
    """Let the program know their names; its help does not list them."""
    for name, why in LATER.items():
        app.command(
            name,
            hidden=True,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(exits_cleanly(_refusal(name, why)))


def _refusal(name: str, why: str) -> Callable[[], None]:
    def refuse() -> None:
        raise UnsupportedFeatureError(f"tensorlake {name}: {why}")

    return refuse
