"""Commands planned for a later version: each fails with an error that names an alternative."""

from collections.abc import Callable

import typer

from tensorlake.cli.exits import exits_cleanly
from tensorlake.errors import UnsupportedFeatureError

__all__ = ["LATER", "register_later"]

LATER = {
    "cache": "this version has no cache on disk to list or clear"
    "\nloaders cache chunks in memory: ds.torch(cache='4GiB'); loader.close() frees it",
    "flows": "durable flows are not available before a later version"
    "\ningest, copy, map and export resume where they stopped: run the same call again",
}
"""The reason, and the alternative."""


def register_later(app: typer.Typer) -> None:
    """Register the commands; the help does not list them."""
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
