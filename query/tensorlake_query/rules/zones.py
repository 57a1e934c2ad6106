"""Chunk pruning: tell the scan which conditions zone maps can answer."""

from msgspec import structs

from tensorlake_query.plan import Filter, Plan, Scan, rewritten
from tensorlake_query.zones import is_prunable


def prune_zones(plan: Plan) -> Plan:
    """Copy the prunable conditions above a scan into it; the filters stay, for rows it lets by."""
    return rewritten(plan, _pushed)


def _pushed(step: Plan) -> Plan:
    if isinstance(step, Filter) and is_prunable(step.predicate):
        scan = _scan_under(step.input)
        if scan is not None:
            return Filter(_with_condition(step.input, step), step.predicate)
    return step


def _scan_under(plan: Plan) -> Scan | None:
    """Return the scan below a run of filters."""
    while isinstance(plan, Filter):
        plan = plan.input
    return plan if isinstance(plan, Scan) else None


def _with_condition(plan: Plan, step: Filter) -> Plan:
    if isinstance(plan, Filter):
        return Filter(_with_condition(plan.input, step), plan.predicate)
    assert isinstance(plan, Scan), "only filters stand between"
    if any(each is step.predicate for each in plan.prunable):
        return plan
    return structs.replace(plan, prunable=(*plan.prunable, step.predicate))
