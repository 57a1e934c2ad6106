"""``tensorlake runs ls|show|compare|rm``: what training runs read and logged."""

from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

import tensorlake as tl
from tensorlake.cli.exits import exits_cleanly
from tensorlake.cli.options import AsJson, Yes, confirm
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms, with_terms

__all__ = ["runs"]

Place = Annotated[str, typer.Argument(metavar="URL", help="Dataset, or where runs are recorded.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the run.")]
OWN = frozenset(("step", "steps", "time", "rank", "epoch", "position", "wait_s", "compute_s"))
"""Columns of every run; the others are what it logged."""

runs = typer.Typer(
    name="runs",
    help="Show what training runs read and logged.\n\nExample: tensorlake runs ls pets.tl",
    no_args_is_help=True,
)


@runs.command("ls")
@exits_cleanly
@with_terms
def list_runs(url: Place = ".", *, as_json: AsJson = False, terms: Terms) -> None:
    """List the runs.

    Example: tensorlake runs ls pets.tl
    """
    found = tl.runs(url, storage_options=terms.options_for(url))
    summaries = [_summary(run) for run in found.values()]
    if as_json:
        print_json(summaries)
        return
    rows = [
        (one["name"], f"{one['steps']:,}", one["version"], _numbers(one["last"]))
        for one in summaries
    ]
    print_table(rows, header=("run", "steps", "version", "last"), right=(1,))


@runs.command()
@exits_cleanly
@with_terms
def show(
    url: Place,
    name: Name,
    *,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every step to a CSV file.")
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write every step to a log folder of TensorBoard."),
    ] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show a run: its config, how long it waited, and what it logged last.

    Example: tensorlake runs show pets.tl resnet-50
    """
    run = tl.runs(url, storage_options=terms.options_for(url))[name]
    if csv is not None:
        run.to_csv(csv)
        print_text(f"wrote {csv}")
    if tensorboard is not None:
        print_text(f"wrote {run.to_tensorboard(tensorboard)}")
    if csv is not None or tensorboard is not None:
        return
    summary = _summary(run)
    if as_json:
        print_json(summary)
        return
    waited, computed = summary["wait_s"], summary["compute_s"]
    share = waited / (waited + computed) if waited + computed else 0.0
    rows = [
        ("run", summary["name"]),
        ("dataset", f"{summary['dataset']} {summary['version']}"),
        ("steps", f"{summary['steps']:,}"),
        ("waited", f"{waited:.1f} s of {waited + computed:.1f} s ({share:.0%})"),
        *_slowest(summary["rank_wait_s"]),
        *((f"config {key}", str(value)) for key, value in summary["config"].items()),
        *((f"last {key}", f"{value:g}") for key, value in summary["last"].items()),
    ]
    print_table(rows)


@runs.command()
@exits_cleanly
@with_terms
def compare(
    url: Place,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of runs.")],
    *,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show runs side by side: configs that differ, and what each logged last.

    Example: tensorlake runs compare pets.tl resnet-50 resnet-101
    """
    found = tl.runs(url, storage_options=terms.options_for(url))
    summaries = [_summary(found[name]) for name in names]
    if as_json:
        print_json(summaries)
        return
    keys = dict.fromkeys(key for one in summaries for key in one["config"])
    differing = [
        key for key in keys if len({repr(one["config"].get(key)) for one in summaries}) > 1
    ]
    logged = dict.fromkeys(key for one in summaries for key in one["last"])
    rows = [
        ("steps", *(f"{one['steps']:,}" for one in summaries)),
        ("waited", *(f"{one['wait_s']:.1f} s" for one in summaries)),
        *(
            (f"config {key}", *(str(one["config"].get(key, "")) for one in summaries))
            for key in differing
        ),
        *((f"last {key}", *(_number(one["last"].get(key)) for one in summaries)) for key in logged),
    ]
    print_table(rows, header=("", *names))


@runs.command()
@exits_cleanly
@with_terms
def rm(url: Place, name: Name, *, yes: Yes = False, terms: Terms) -> None:
    """Delete the record of a run; the dataset is unchanged.

    Example: tensorlake runs rm pets.tl resnet-50 --yes
    """
    found = tl.runs(url, storage_options=terms.options_for(url))
    run = found[name]
    confirm(f"Delete the record of {run!r}?", yes=yes)
    found.delete(name)


def _summary(run: tl.Run) -> dict[str, Any]:
    steps = run.steps.to_pydict()
    last: dict[str, float] = {}
    for name, values in steps.items():
        known = [value for value in values if value is not None]
        if name not in OWN and known:
            last[name] = known[-1]
    waits: dict[int, float] = {}
    for rank, seconds in zip(steps["rank"], steps["wait_s"], strict=True):
        waits[rank] = waits.get(rank, 0.0) + seconds
    return {
        "name": run.name,
        "dataset": run.dataset,
        "version": run.version,
        "config": dict(run.config),
        "steps": max(steps["step"], default=-1) + 1,
        "wait_s": sum(steps["wait_s"]),
        "compute_s": sum(steps["compute_s"]),
        "rank_wait_s": waits,
        "last": last,
    }


def _slowest(waits: dict[int, float]) -> list[tuple[str, str]]:
    """Return the line of the rank that waited longest for data; the other ranks wait for it."""
    if len(waits) < 2:  # noqa: PLR2004 - of one rank none is slower
        return []
    rank = max(waits, key=lambda one: waits[one])
    others = median(seconds for one, seconds in waits.items() if one != rank)
    text = f"{rank} of {len(waits)}: waited {waits[rank]:.1f} s, the others {others:.1f} s (median)"
    return [("slowest rank", text)]


def _numbers(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
