"""``tensorlake flows run|start|list|inspect|retry|cancel|approve``: durable flows, their runs."""

import json
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import tensorlake as tl
from tensorlake.cli.exits import exits_cleanly
from tensorlake.cli.options import AsJson
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms, with_terms
from tensorlake.errors import InvalidInputError, NotFoundError, missing_extra

__all__ = ["flows"]

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The run, as `tensorlake flows list` has it.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="PLACE",
        help="SQLite file or postgresql:// URL of the flows; TENSORLAKE_FLOWS otherwise.",
    ),
]

flows = typer.Typer(
    name="flows",
    help="Run durable flows, and list, inspect, retry, cancel and approve their runs."
    "\n\nExample: tensorlake flows list",
    no_args_is_help=True,
)


@flows.command()
@exits_cleanly
@with_terms
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Python file that defines flows.")],
    *,
    database: Database = None,
    terms: Terms,
) -> None:
    """Run the flows of a Python file until it is interrupted: started, watched for, or left undone.

    Example: tensorlake flows run arrivals.py
    """
    del terms
    tl.flows.connect(database)
    if not file.is_file():
        raise InvalidInputError(f"there is no file {str(file)!r} to read flows from")
    if find_spec("dbos") is None:  # before the file does anything
        raise missing_extra("tensorlake flows", "flows")
    runpy.run_path(str(file), run_name=file.stem)
    tl.flows.run()


@flows.command()
@exits_cleanly
@with_terms
def start(
    name: Annotated[str, typer.Argument(metavar="FLOW", help="Name of the flow.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENT]…", help="JSON values, or text.")
    ] = None,
    *,
    database: Database = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Start a flow; a process of `tensorlake flows run` with its code runs it.

    Example: tensorlake flows start arrive incoming/
    """
    del terms
    tl.flows.connect(database)
    _print(tl.flows.start(name, *map(_value, arguments or ())), as_json=as_json)


@flows.command("list")
@exits_cleanly
@with_terms
def list_runs(
    *,
    flow: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only runs of this flow.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Number of runs.")] = 20,
    database: Database = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List runs of flows, the newest first.

    Example: tensorlake flows list --flow arrive
    """
    del terms
    _connect(database)
    found = tl.flows.list_runs(flow=flow, limit=limit)
    if as_json:
        print_json([_described(one) for one in found])
        return
    rows = [
        (
            one.id,
            one.flow,
            one.state,
            f"{one.started:%Y-%m-%d %H:%M:%S}",
            one.waits_for or one.error or "",
        )
        for one in found
    ]
    print_table(rows, header=("run", "flow", "state", "started", ""))


@flows.command()
@exits_cleanly
@with_terms
def inspect(run: Id, *, database: Database = None, as_json: AsJson = False, terms: Terms) -> None:
    """Show a run and its steps.

    Example: tensorlake flows inspect 4314b997-3443-44d8-b0cf-bb25c8db083f
    """
    del terms
    _connect(database)
    found = tl.flows.inspect(run)
    _print(found, as_json=as_json)
    if not as_json:
        for one in found.steps:
            print_text(f"  {one.name}: {one.error or one.result!r}")


@flows.command()
@exits_cleanly
@with_terms
def retry(run: Id, *, database: Database = None, as_json: AsJson = False, terms: Terms) -> None:
    """Continue a run that failed or was cancelled, at the step that has no result.

    Example: tensorlake flows retry 4314b997-3443-44d8-b0cf-bb25c8db083f
    """
    del terms
    _connect(database)
    _print(tl.flows.retry(run), as_json=as_json)


@flows.command()
@exits_cleanly
@with_terms
def cancel(run: Id, *, database: Database = None, as_json: AsJson = False, terms: Terms) -> None:
    """Cancel a run: it ends before its next step.

    Example: tensorlake flows cancel 4314b997-3443-44d8-b0cf-bb25c8db083f
    """
    del terms
    _connect(database)
    _print(tl.flows.cancel(run), as_json=as_json)


@flows.command()
@exits_cleanly
@with_terms
def approve(
    run: Id,
    *,
    refuse: Annotated[bool, typer.Option("--refuse", help="Answer no.")] = False,
    database: Database = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Answer the approval that a run waits for.

    Example: tensorlake flows approve 4314b997-3443-44d8-b0cf-bb25c8db083f
    """
    del terms
    _connect(database)
    _print(tl.flows.approve(run, decision=not refuse), as_json=as_json)


def _connect(database: str | None) -> None:
    """Choose a database that is there: a question makes no file.

    Raises:
        NotFoundError: It is a file that does not exist.
    """
    url = tl.flows.connect(database)
    place = url.removeprefix("sqlite:///").partition("?")[0]
    if place != url and not Path(place).exists():
        raise NotFoundError(
            f"there is no database of flows {place!r}"
            "\ngive that of the runs: --database PLACE, or TENSORLAKE_FLOWS"
        )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(found: "tl.flows.FlowRun", *, as_json: bool) -> None:
    if as_json:
        print_json(_described(found))
    else:
        print_text(found)


def _described(found: "tl.flows.FlowRun") -> dict[str, Any]:
    return {
        "id": found.id,
        "flow": found.flow,
        "state": found.state,
        "waits_for": found.waits_for,
        "arguments": found.arguments,
        "result": repr(found.result),
        "error": found.error,
        "started": found.started.isoformat(),
        "steps": [
            {"name": one.name, "result": repr(one.result), "error": one.error}
            for one in found.steps
        ],
    }
