"""What is read, and when: no column that nothing uses, no row that an earlier step drops."""

from msgspec import structs

from tensorlake_query.bound import columns_of
from tensorlake_query.plan import Plan, Scan, chain, expressions, rewritten


def prune_columns(plan: Plan) -> Plan:
    """Keep in the scan only the columns whose samples some step evaluates."""
    used = {name for step in chain(plan) for expr in expressions(step) for name in columns_of(expr)}

    def pruned(step: Plan) -> Plan:
        if not isinstance(step, Scan):
            return step
        return structs.replace(step, columns=tuple(name for name in step.columns if name in used))

    return rewritten(plan, pruned)


def read_late(plan: Plan) -> Plan:
    """Let the scan read nothing: each step reads what it needs, for the rows that reach it."""
    return rewritten(
        plan, lambda step: structs.replace(step, columns=()) if isinstance(step, Scan) else step
    )
