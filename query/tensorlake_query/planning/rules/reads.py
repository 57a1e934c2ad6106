"""Reads, and their time: no column that nothing uses, no row that an earlier step drops."""

from msgspec import structs

from tensorlake_query.planning.plan import Plan, Scan, rewritten


def read_late(plan: Plan) -> Plan:
    """Let the scan read nothing: each step reads what it needs, for the rows that reach it.

    So a column that no step evaluates is never read, and an image is decoded only where everything
    asked before keeps its row.
    """
    return rewritten(
        plan, lambda step: structs.replace(step, columns=()) if isinstance(step, Scan) else step
    )
