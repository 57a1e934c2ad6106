"""The program ``tensorlake``; each command is in the file of its name.

Commands planned for a later version are hidden; each fails with an error that names an alternative.
"""

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Annotated

import typer

from tensorlake.cli.commands.bench import bench
from tensorlake.cli.commands.branch import branch
from tensorlake.cli.commands.check import check
from tensorlake.cli.commands.copy import copy
from tensorlake.cli.commands.demo import demo
from tensorlake.cli.commands.diff import diff
from tensorlake.cli.commands.doctor import doctor
from tensorlake.cli.commands.du import du
from tensorlake.cli.commands.expire import expire
from tensorlake.cli.commands.export import export
from tensorlake.cli.commands.flows import flows
from tensorlake.cli.commands.fork import fork
from tensorlake.cli.commands.gc import gc
from tensorlake.cli.commands.head import head
from tensorlake.cli.commands.index import index
from tensorlake.cli.commands.info import info
from tensorlake.cli.commands.ingest import ingest
from tensorlake.cli.commands.lint import lint
from tensorlake.cli.commands.log import log
from tensorlake.cli.commands.ls import ls
from tensorlake.cli.commands.mcp import mcp
from tensorlake.cli.commands.merge import merge
from tensorlake.cli.commands.optimize import optimize
from tensorlake.cli.commands.pull import pull
from tensorlake.cli.commands.query import query
from tensorlake.cli.commands.restore import restore
from tensorlake.cli.commands.rm import rm
from tensorlake.cli.commands.runs import runs
from tensorlake.cli.commands.serve import serve
from tensorlake.cli.commands.show import show
from tensorlake.cli.commands.tag import tag
from tensorlake.cli.commands.token import token
from tensorlake.cli.exits import exits_cleanly
from tensorlake.cli.terms import with_terms
from tensorlake.errors import UnsupportedFeatureError

__all__ = ["main"]

app = typer.Typer(
    name="tensorlake",
    help="Create, query, version and serve multi-modal datasets.",
    epilog="A version is a branch, a tag or a commit: --at main@12."
    " Exit status: 0 success, 1 error, 2 usage error, 130 Ctrl-C. NO_COLOR is respected."
    " Example: tensorlake info pets.tl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


LATER = {
    "cache": "this version has no cache on disk to list or clear"
    "\nloaders cache chunks in memory: ds.torch(cache='4GiB'); loader.close() frees it",
}
"""Commands of a later version: the reason, and the alternative."""


def _register(panel: str, *commands: Callable[..., None]) -> None:
    for command in commands:
        app.command(rich_help_panel=panel)(exits_cleanly(with_terms(command)))


def _refusal(name: str, why: str) -> Callable[[], None]:
    def refuse() -> None:
        raise UnsupportedFeatureError(f"tensorlake {name}: {why}")

    return refuse


# --help lists them in this order: that in which a new user needs them.
_register("Inspect", info, ls, head, query, show, du, bench)
_register("Versions", log, diff, branch, tag, merge, pull, restore)
app.add_typer(runs, rich_help_panel="Inspect")
app.add_typer(flows, rich_help_panel="Ingest, export, copy")
_register("Ingest, export, copy", ingest, export, copy, fork, rm)
app.command("cp", hidden=True)(exits_cleanly(with_terms(copy)))
# Unknown options are passed on: the server has flags of its own, and rejects any others.
app.command(
    rich_help_panel="Serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(exits_cleanly(with_terms(serve)))
app.add_typer(token, rich_help_panel="Serve")
_register("Serve", mcp, demo)
_register("Maintenance", check, lint, optimize, expire, gc, doctor)
app.add_typer(index, rich_help_panel="Maintenance")
for _name, _why in LATER.items():
    app.command(
        _name,
        hidden=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(exits_cleanly(_refusal(_name, _why)))


def _print_version(wanted: bool) -> None:  # noqa: FBT001 typer passes it by position
    if wanted:
        print(f"tensorlake {metadata.version('tensorlake-dl')}")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the program's version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Create, query, version and serve multi-modal datasets."""
    del version  # answered by its callback, before any command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program on the arguments (default: the process's own) and exit with its code."""
    app(args=arguments, prog_name="tensorlake")
