"""States and orders that loaders of release 0.1.0 recorded are continued exactly, for ever.

The rows after a state are the same on every number of ranks and for every batch size, in both
frameworks; so are the random numbers that transforms and decode steps draw for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tests.golden.golden_loaders import CASES, ENDLESS_ROWS, gathered, ranks_of

WORLDS = [1, 3]
OTHER_BATCHES = 37


@pytest.fixture(scope="module")
def recorded(release: Path) -> dict[str, Any]:
    return json.loads((release / "loaders.json").read_text(encoding="utf-8"))


def at_most(case: dict[str, Any]) -> int | None:
    return ENDLESS_ROWS if case["state"]["num_rows"] is None else None


def resumed(
    release: Path, name: str, wanted: dict[str, Any], world: int, batch_size: int | None = None
) -> list[Any]:
    loaders = ranks_of(CASES[name], release, world, batch_size)
    for loader in loaders:
        loader.load_state_dict(wanted["state"])
    return loaders


def test_every_case_was_recorded(recorded):
    assert list(recorded) == list(CASES)
    assert all(case["rest"] for case in recorded.values())


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_state_goes_on_with_the_recorded_rows(release, recorded, name):
    wanted, case = recorded[name], CASES[name]
    loaders = resumed(release, name, wanted, case.world)

    assert gathered(loaders, at_most=at_most(wanted)) == wanted["rest"]
    if wanted["next"]:
        assert gathered(loaders) == wanted["next"]


@pytest.mark.filterwarnings("ignore:the last batch has fewer rows than:UserWarning")
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.any_batches])
def test_it_goes_on_alike_on_other_ranks_and_batch_sizes(release, recorded, name, world):
    wanted = recorded[name]
    loaders = resumed(release, name, wanted, world, OTHER_BATCHES)

    assert gathered(loaders, at_most=at_most(wanted)) == wanted["rest"]
    if wanted["next"]:
        assert gathered(loaders) == wanted["next"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.order])
def test_the_same_loader_comes_to_the_recorded_place(release, recorded, name):
    case, wanted = CASES[name], recorded[name]["state"]
    (loader,) = ranks_of(case, release, 1, case.arguments["batch_size"] * case.world)
    loader.set_epoch(case.epoch)
    if case.batches:
        one = iter(loader)
        for _ in range(case.batches):
            next(one)
        one.close()
    if case.skipped:
        loader.skip(case.skipped)
        iter(loader)

    state = loader.state_dict()

    # "plan" and "order" are those of new loaders, which order by a newer version
    same = ("version", "selection", "num_rows", "seed", "epoch", "position", "skipped")
    assert {name: state[name] for name in same} == {name: wanted[name] for name in same}


@pytest.mark.parametrize("name", CASES)
def test_states_that_follow_are_of_the_recorded_version(release, recorded, name):
    case, wanted = CASES[name], recorded[name]["state"]
    (loader, *_) = resumed(release, name, recorded[name], case.world)

    for _ in range(2):
        state = loader.state_dict()
        assert state["plan"] == wanted["plan"] == 1
        assert state["order"]["kind"] == wanted["order"]["kind"]
        loader.load_state_dict(json.loads(json.dumps(state)))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.again])
def test_a_loader_is_made_again_from_the_state_alone(release, recorded, name):
    case, wanted = CASES[name], recorded[name]
    moved = (release / Path(wanted["state"]["source"]["url"]).name).as_posix()
    state = wanted["state"] | {"source": wanted["state"]["source"] | {"url": moved}}

    loader = tl.loader_from_state(
        state, batch_size=OTHER_BATCHES, columns=[*case.columns, "_valid"], rank=0, world_size=1
    )

    assert gathered([loader]) == wanted["rest"]


def test_a_state_of_other_rows_is_refused(release, recorded):
    ds = tl.open((release / "left").as_posix(), "main@1", read_only=True)
    loader = ds[:900].loader(batch_size=10)

    with pytest.raises(tl.StateMismatchError):
        loader.load_state_dict(recorded["full"]["state"])
