"""Each optimizer rule by the plan before and after: the pairs are in cases/, one file a rule.

A case is a query, the plan as written, and the plan after the rule of the file's name, separated by
`-->`; the rules before it in `RULES` have been applied to the first plan.
"""

from pathlib import Path

import pytest

from tensorlake_query import parse
from tensorlake_query.binding.compile import bind_statement
from tensorlake_query.binding.scope import Environment
from tensorlake_query.planning.explain import explain
from tensorlake_query.planning.plan import Scan
from tensorlake_query.planning.rules import RULES
from tensorlake_query.values.bound import show
from tests.unit.query.pets import pets

CASES = Path(__file__).parents[1] / "cases"


def cases():
    for path in sorted(CASES.glob("*.tql")):
        for number, case in enumerate(path.read_text(encoding="utf-8").strip().split("\n\n")):
            yield pytest.param(path.stem, case, id=f"{path.stem}-{number}")


@pytest.mark.parametrize(("rule", "case"), list(cases()))
def test_a_rule_turns_the_plan_into_the_one_beside_it(rule, case):
    query, before, after = (part.strip("\n") for part in case.split("-->"))
    env = Environment(pets().schema, {}, query, optimize=False)
    plan = bind_statement(parse(query), env).plan
    names = [each.__name__ for each in RULES]

    for earlier in RULES[: names.index(rule)]:
        plan = earlier(plan)
    changed = RULES[names.index(rule)](plan)

    note = lookups if rule == "use_indexes" else None
    assert explain(plan, note) == before
    assert explain(changed, note) == after
    assert explain(RULES[names.index(rule)](changed), note) == after


def lookups(step):
    """Show the conditions that an index may answer, which depend on no source yet."""
    if not isinstance(step, Scan) or not step.lookups:
        return ""
    return f", indexes where {' AND '.join(show(one.condition) for one in step.lookups)}"


def test_every_rule_has_its_cases():
    assert {path.stem for path in CASES.glob("*.tql")} == {rule.__name__ for rule in RULES}
