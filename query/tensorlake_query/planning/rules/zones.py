"""Chunk pruning: tell the scan which conditions zone maps can answer."""

from msgspec import structs

from tensorlake_query.planning.plan import Filter, Plan, Scan, chain, rewritten
from tensorlake_query.planning.zone_maps import is_prunable


def prune_zones(plan: Plan) -> Plan:
    """Copy the prunable conditions above a scan into it; the filters stay, for rows it lets by."""
    scan, *above = reversed(list(chain(plan)))
    if not isinstance(scan, Scan):
        return plan
    prunable = list(scan.prunable)
    for step in above:
        if not isinstance(step, Filter):
            break
        if is_prunable(step.predicate) and all(each is not step.predicate for each in prunable):
            prunable.append(step.predicate)
    pruned = structs.replace(scan, prunable=tuple(prunable))
    return rewritten(plan, lambda step: pruned if step is scan else step)
