"""The expected reads of a plan, before it runs: rows, chunks, bytes, requests.

Zone maps tell which rows a scan cannot skip; each column that a step needs is then read from the
chunks of these rows at most. A filter that leaves few rows makes that less for the columns read
after it, which only `EXPLAIN ANALYZE` can tell.
"""

from collections.abc import Iterator

from tensorlake_query.planning.plan import (
    Filtered,
    Joined,
    Other,
    Plan,
    Scan,
    This,
    chain,
    expressions,
)
from tensorlake_query.planning.zone_maps import candidate_ranges
from tensorlake_query.syntax.printer import print_name
from tensorlake_query.values.bound import columns_of
from tensorlake_query.values.source import ColumnSource, CostedSource, IntArray


def scanned_source(plan: Plan, this: ColumnSource) -> tuple[Scan, ColumnSource] | None:
    """Return the scan of a plan and its source; None of queries in FROM, joins, set operations."""
    scan = list(chain(plan))[-1]
    if not isinstance(scan, Scan) or not isinstance(scan.relation, This | Other):
        return None
    return scan, scan.relation.source if isinstance(scan.relation, Other) else this


def filtered_sides(plan: Plan, this: ColumnSource) -> Iterator[tuple[Scan, ColumnSource]]:
    """Yield the scans of plain sources that are filtered sides of the join of a plan."""
    scan = list(chain(plan))[-1]
    relations = [scan.relation] if isinstance(scan, Scan) else []
    while relations:
        relation = relations.pop()
        if isinstance(relation, Joined):
            relations += [relation.right, relation.left]
        elif isinstance(relation, Filtered):
            found = scanned_source(relation.plan, this)
            if found is None:
                relations.append(relation.relation)
            else:
                yield found


def expected_reads(
    plan: Plan, this: ColumnSource, candidates: IntArray | None = None
) -> Iterator[str]:
    """Yield a line on the rows that a plan scans, and one for each column it reads of them.

    `candidates` are the ranges of rows that indexes leave; None: there are none, or no index.

    There is no estimate below queries in FROM, joins and set operations, or for a column
    whose reading cost the source does not know.
    """
    steps = list(chain(plan))
    scan, source = scanned_source(plan, this) or (None, None)
    if scan is None or not isinstance(source, CostedSource):
        return
    ranges = candidate_ranges(scan.prunable, source) if candidates is None else candidates
    scanned = int((ranges[:, 1] - ranges[:, 0]).sum())
    yield f"scans {scanned:,} of {source.num_rows:,} rows"
    names = {name for step in steps for expr in expressions(step) for name in columns_of(expr)}
    for name in sorted(names & set(source.schema)):
        cost = source.cost(name, ranges)
        if cost is None:
            continue
        yield (
            f"reads of {print_name(name)} at most: {_counted(cost.chunks, 'chunk')}, "
            f"{_counted(cost.nbytes, 'byte')}, {_counted(cost.requests, 'request')}"
        )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
