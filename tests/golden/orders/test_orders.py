"""States and orders of plan version 2 are continued exactly, for ever, on any number of ranks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.golden_loaders import gathered
from tests.golden.orders.golden_orders import (
    CASES,
    RECORDED,
    Sources,
    loaders_of,
    opened_sources,
)
from tests.golden.orders.make_orders import ENDLESS_ROWS
from tests.golden.orders.make_orders import recorded as record

OTHER_WORLD, OTHER_BATCHES = 3, 41


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Sources:
    return opened_sources(tmp_path_factory.mktemp("orders"))


def continued(wanted: dict[str, Any], loaders: list[Any]) -> list[list[list[Any]]]:
    """Return the rest of the recorded epoch, and the next one."""
    for loader in loaders:
        loader.load_state_dict(wanted["state"])
    at_most = ENDLESS_ROWS if wanted["state"]["num_rows"] is None else None
    rest = gathered(loaders, at_most=at_most)
    return [rest, [] if at_most else gathered(loaders)]


def test_every_case_is_recorded(recorded):
    assert list(recorded) == list(CASES)
    assert all(case["rest"] for case in recorded.values())


@pytest.mark.parametrize("name", CASES)
def test_the_same_loader_comes_to_the_recorded_state_and_goes_on(sources, recorded, name):
    assert json.loads(json.dumps(record(CASES[name], sources))) == recorded[name]


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_state_goes_on_with_the_recorded_rows(sources, recorded, name):
    wanted, case = recorded[name], CASES[name]

    rest, following = continued(wanted, loaders_of(case, sources, case.world))

    assert rest == wanted["rest"]
    assert following == wanted["next"]


@pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")
@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_alike_on_other_ranks_and_batch_sizes(sources, recorded, name):
    wanted, case = recorded[name], CASES[name]

    found = continued(wanted, loaders_of(case, sources, OTHER_WORLD, OTHER_BATCHES))

    in_order = list if not case.is_dealt else sorted
    assert [*map(in_order, found)] == [in_order(wanted["rest"]), in_order(wanted["next"])]
