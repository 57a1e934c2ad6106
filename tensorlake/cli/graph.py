r"""The commit graph: branches that diverge and merge, drawn beside their commits.

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

from tensorlake.dataset import Commit

__all__ = ["draw_graph"]


def draw_graph(commits: Iterable[Commit]) -> Iterator[tuple[str, Commit | None]]:
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
