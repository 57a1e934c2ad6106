"""The optimizer: small pure rules over plans, applied once each in this order.

No rule changes an answer; each is tested by the plan before and after, and all together against the
plan as written.
"""

from tensorlake_query.planning.plan import Plan, Project
from tensorlake_query.planning.rules.codes import compare_codes
from tensorlake_query.planning.rules.filters import order_filters, split_filters
from tensorlake_query.planning.rules.fold import drop_decided_filters, fold_constants
from tensorlake_query.planning.rules.indexes import use_indexes
from tensorlake_query.planning.rules.joins import filter_sides
from tensorlake_query.planning.rules.parts import read_parts
from tensorlake_query.planning.rules.reads import read_late
from tensorlake_query.planning.rules.topk import keep_top_k
from tensorlake_query.planning.rules.zones import prune_zones

RULES = (
    fold_constants,  # 1 + 2 is 3; x AND TRUE is x
    split_filters,  # a AND b is two filters
    drop_decided_filters,  # TRUE keeps all, FALSE and NULL keep nothing
    order_filters,  # cheap and selective first
    filter_sides,  # conditions of one side of a join come before it
    prune_zones,  # skip runs of rows by their bounds
    compare_codes,  # classes as narrow as they are kept
    use_indexes,  # find rows by indexes of the source
    read_parts,  # of samples in parts only those that an expression needs
    keep_top_k,  # ORDER BY … LIMIT k keeps k rows
    read_late,  # read only what something uses, for the rows that get that far
)


def optimized(plan: Project) -> Project:
    """Return an equivalent plan that reads and computes less."""
    result: Plan = plan
    for rule in RULES:
        result = rule(result)
    assert isinstance(result, Project), "rules keep the last step"
    return result


__all__ = [
    "RULES", "compare_codes", "drop_decided_filters", "filter_sides", "fold_constants",
    "keep_top_k", "optimized", "order_filters", "prune_zones", "read_late",
    "read_parts", "split_filters", "use_indexes",
]  # fmt: skip
