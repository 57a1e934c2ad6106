"""The commits that led to a version through all of its parents, merged branches included.

They come newest first, by the times in the log; a writer whose clock was ahead never puts a commit
before the one that led here through it. Only what is looked at is read, a line of the log each.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.history.log import read_line
from tensorlake.format import Entry, EntryLine
from tensorlake.storage import Store, runtime

__all__ = ["commit_graph"]


def commit_graph(store: Store, branch: str, head: Entry | EntryLine) -> Iterator[Commit]:
    """Yield the commits that a version contains."""
    start = runtime.run(_commit_under(store, branch, head))
    known = {f"{branch}@{start.seq}": (branch, start)}
    frontier = [(-start.published, f"{branch}@{start.seq}")]
    while frontier:
        _, version = heapq.heappop(frontier)
        of_branch, line = known[version]
        parents: list[str] = []
        for parent in line.parents:
            entry = runtime.run(read_line(store, parent.branch, parent.seq))
            under = runtime.run(_commit_under(store, parent.branch, entry))
            name = f"{parent.branch}@{under.seq}"
            parents.append(name)
            if name not in known:
                known[name] = (parent.branch, under)
                # A parent's clock may have been ahead; it still comes after its child.
                heapq.heappush(frontier, (max(-under.published, -line.published + 1), name))
        yield replace(Commit.of_entry(line, of_branch), parents=tuple(parents))


async def _commit_under(store: Store, branch: str, line: Entry | EntryLine) -> Entry | EntryLine:
    """Step from a fence or an end to the commit before it."""
    while line.kind != "commit" and line.seq > 0:
        line = await read_line(store, branch, line.seq - 1)
    return line
