"""The three rules of garbage, all of them and each left out.

format.md's tests 13, 15, 16, 35, 37, 38, 39 and 40 in every interleaving; the implementation's own
tests of them are in tests/integration/test_garbage*.py.
"""

from dataclasses import replace

import pytest

from tensorlake.versions.maintenance.collect import STEPS
from tests.property.versions.collector_model.cases import MAIN, all_cases, case
from tests.property.versions.collector_model.collector import Collector
from tests.property.versions.collector_model.model import FIXED, RULES, Case, explore

LONGEST = "branch of dev, two gc"
"""More than a million worlds, where the others have 150,000 at most."""

LONG = {
    "branch and a view of its head",
    "tag + branch end + two gc",
    "two creators of one branch",
    "two gc that expire apart",
    "writer + two gc",
    "writer on a new branch, two gc",
}
"""Tens of thousands of worlds; the others hold all rules in fewer."""

CASES = {one.name: one for one in all_cases()}

LOSING = {
    "begin": "branch + gc that expires",
    "bind": "staged data moved to a new branch",
    "dead_before": "tag + branch end + gc",
    "eb_before": "tag + expire beside gc",
    "fences": "writer asleep + gc",
    "mono": "replacing writer + gc + expire",
    "oldest": "writer of two parallel packs + gc",
    "pin": "restore + gc that expires",
    "pins": "restore + gc that expires",
    "r1_check": "writer asleep + gc",
    "r1_every": "writer asleep + gc",
    "r1_pin": "restore + gc that expires",
    "r2": "tag + gc that expires",
    "read_first": "merge into a branch made later, expired",
    "t_first": "writer on a new branch",
    "t_once": "staged data moved to another branch",
    "tags_first": "restore + gc that expires",
    "view_age": "view + branch end + gc",
}
"""The smallest case that loses data without a rule."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONG else ())
        for name in CASES
        if name != LONGEST
    ],
)
def test_nothing_is_lost_in_any_interleaving(name):
    found = explore(CASES[name])

    assert found.loss is None, " · ".join(found.trace)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_data_is_lost(rule):
    found = explore(CASES[LOSING[rule]], FIXED - {rule})

    assert found.loss is not None, f"{rule}: {RULES[rule]}"


def test_every_rule_and_every_case_is_there():
    assert LOSING.keys() == RULES.keys()
    assert len(CASES) >= 35
    assert CASES.keys() > LONG


def test_the_models_collector_takes_the_steps_of_the_implementation():
    alone = case("gc alone", Collector(), until=1, dev=False)
    world, steps, at = alone.world, list[str](), Collector().start
    while following := list(Collector().steps(world, at, FIXED)):
        ((label, world, at),) = following
        steps.append(label.partition(":")[0].split()[0])

    assert list(dict.fromkeys(steps)) == [step.__name__ for step in STEPS]


@pytest.mark.slow
def test_the_model_collects_and_commits_and_refuses():
    """A model in which nothing happens would lose nothing."""
    writer = explore(CASES["writer + two gc"])
    tag = explore(CASES["tag + branch end + gc"])

    assert {"0: publish", "0: expired", "1: delete_packs"} <= writer.steps
    assert {"0: acknowledge", "0: withdraw"} <= tag.steps
    assert any(log for log in CASES["writer + two gc"].world.logs[MAIN])


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost_when_the_clock_goes_on(name):
    """Every case in full, the longest with a tick less."""
    found = explore(CASES[name] if name == LONGEST else longer(CASES[name]))

    assert found.loss is None, " · ".join(found.trace)


def longer(one: Case) -> Case:
    return replace(one, until=one.until + 1)
