r"""``tensorlake log URL``: list the commits of a version, newest first; or draw their graph.

    *    main@3  2 hours ago  ana  merge fix@2
    |\
    | *  fix@2  3 hours ago  ana  relabel
    * |  main@2  4 hours ago  ci  more cats
    |/
    *    main@1  yesterday  ci  first

A column is a line of descent. A commit is drawn in the column that waits for it; its first parent
continues that column, and other parents open a column to the right.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

import typer

from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import AsJson, At, Url, parse_date
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import Commit
from tensorlake.quantities import human_time

__all__ = ["commit_document", "commit_line", "log"]


def log(
    url: Url,
    *,
    at: At = None,
    number: Annotated[
        int | None, typer.Option("-n", metavar="N", min=1, help="Maximum number of commits.")
    ] = None,
    oneline: Annotated[bool, typer.Option("--oneline", help="Print one line per commit.")] = False,
    graph: Annotated[
        bool,
        typer.Option("--graph", help="Draw the graph of branches and merges; one line per commit."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Only commits since DATE, such as 2026-01-31."),
    ] = None,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only commits by this author.")
    ] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List the commits that led to a version, newest first.

    Example: tensorlake log pets.tl --oneline
    """
    if graph and (since or author or as_json):
        wrong_usage("--graph shows all commits; leave out --since, --author and --json")
    earliest = parse_date(since, flag="--since") if since else None
    with terms.open(url, at=at) as ds:
        if graph:
            for drawing, commit in _drawn(ds.graph(number)):
                text = "" if commit is None else "  ".join(filter(None, commit_line(commit)))
                print_text(f"{drawing}  {text}".rstrip())
            return
        read_all = author is not None or earliest is not None
        wanted = (
            commit
            for commit in ds.log(None if read_all else number)
            if (author is None or commit.author == author)
            and (earliest is None or commit.time >= earliest)
        )
        commits = list(islice(wanted, number))
    if as_json:
        print_json([commit_document(commit) for commit in commits])
    elif oneline:
        print_table([commit_line(commit) for commit in commits])
    else:
        for commit in commits:
            print_text(f"{commit.version}  {commit.digest}")
            print_text(f"  {commit.author or '(no author)'}, {commit.time:%Y-%m-%d %H:%M:%S %Z}")
            print_text(f"  {commit.message or '(no message)'}")
            print_text(f"  {commit.summary()}\n")


def commit_line(commit: Commit) -> tuple[str, ...]:
    """Return the columns of a commit's line."""
    return (
        commit.version,
        human_time(commit.time),
        commit.author or "",
        commit.message or "",
        commit.summary(),
    )


def commit_document(commit: Commit) -> dict[str, object]:
    """Return a commit as a JSON object."""
    return {
        "version": commit.version,
        "digest": commit.digest,
        "message": commit.message,
        "author": commit.author,
        "time": commit.time,
        "parents": list(commit.parents),
        "changes": commit.summary(),
    }


def _drawn(commits: Iterable[Commit]) -> Iterator[tuple[str, Commit | None]]:
    """Draw commits, children before parents; lines between commits have None."""
    waiting: list[str] = []  # the version that each column continues with
    for commit in commits:
        while waiting.count(commit.version) > 1:
            last = len(waiting) - 1 - waiting[::-1].index(commit.version)
            yield _joined(len(waiting), last), None
            del waiting[last]
        if commit.version not in waiting:
            waiting.append(commit.version)
        here = waiting.index(commit.version)
        yield " ".join("*" if at == here else "|" for at in range(len(waiting))), commit
        if not commit.parents:
            del waiting[here]
            continue
        waiting[here], *others = commit.parents
        for parent in others:
            waiting.insert(here + 1, parent)
            yield _forked(len(waiting), here), None


def _forked(columns: int, here: int) -> str:
    """Draw a column that opens; the columns to its right continue."""
    return "| " * here + "|\\ " + "\\ " * (columns - here - 2)


def _joined(columns: int, last: int) -> str:
    """Draw a column that joins the one before; the columns to its right continue."""
    return "| " * (last - 1) + "|/ " + "/ " * (columns - last - 1)
