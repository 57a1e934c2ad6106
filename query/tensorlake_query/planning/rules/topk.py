"""Top-k: an ORDER BY under a LIMIT need not keep rows that cannot be among the first."""

from msgspec import structs

from tensorlake_query.planning.plan import Limit, Plan, Sort, TopK, rewritten


def keep_top_k(plan: Plan) -> Plan:
    """Turn the sort under `LIMIT n OFFSET m` into one that keeps n + m rows."""
    return rewritten(plan, _kept)


def _kept(step: Plan) -> Plan:
    if isinstance(step, Limit) and step.count is not None and isinstance(step.input, Sort):
        sort = step.input
        return structs.replace(step, input=TopK(sort.input, sort.keys, step.count + step.offset))
    return step
