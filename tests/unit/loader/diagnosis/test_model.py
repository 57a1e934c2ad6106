"""The model of a loader: from injected demands to the bottleneck, the stalls and the settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.diagnosis import Diagnosis
from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.model import Demand, Model, StoreFigures
from tensorlake.loader.diagnosis.settings import Resources, faster

BATCH = 32
MS = 1e-3
RESOURCES = Resources(
    cores=4,
    memory_nbytes=1 << 30,
    prefetch_nbytes=1 << 20,
    cache_nbytes=1 << 20,
    row_nbytes=100_000,
    epoch_nbytes=1 << 40,
    can_fork=True,
)


def exactly(seconds):
    return Estimate.exactly(seconds)


def computing(seconds):
    return Demand(exactly(seconds), exactly(seconds))


def sleeping(seconds):
    return Demand(exactly(seconds), exactly(seconds / 100))


def locking(seconds):
    return Demand(exactly(seconds), exactly(seconds), exactly(seconds))


def store(own, curve, *, held=0.0, latency_s=0.02):
    """Return a store by megabytes per second: the loader's own, and with requests in flight."""
    rates = tuple((count, exactly(rate * 1e6)) for count, rate in curve.items())
    own = None if own is None else exactly(own * 1e6)
    return StoreFigures(100_000, own, rates, latency_s, held)


FAST = Model(
    workers=4,
    cores=exactly(4.0),
    batch_rows=BATCH,
    step=sleeping(0.1 * MS),
    decode=computing(0.2 * MS),
    rest_cpu=exactly(0.01 * MS),
)
FAR = {1: 1.0, 4: 4.0, 16: 16.0, 64: 64.0}  # each request adds as much: latency
NARROW = {1: 4.0, 4: 5.0, 16: 5.0, 64: 5.0}
CASES = {
    "slow store": (replace(FAST, store=store(32.0, FAR)), "latency", {"latency": 95.0}),
    "narrow store": (replace(FAST, store=store(5.0, NARROW)), "bandwidth", {"bandwidth": 635.2}),
    "slow decode": (replace(FAST, decode=computing(4 * MS)), "decode", {"decode": 28.88}),
    "transform that sleeps": (
        replace(FAST, transform=sleeping(5 * MS)),
        "transform",
        {"transform": 38.4},
    ),
    "transform that computes": (
        replace(FAST, transform=computing(5 * MS)),
        "transform",
        {"transform": 38.48},
    ),
    "transform that holds the lock": (
        replace(FAST, transform=locking(5 * MS)),
        "transform",
        {"transform": 156.8},
    ),
    "slow consumer": (replace(FAST, step=sleeping(2 * MS)), "step", {}),
    "small prefetch": (
        replace(FAST, store=store(2.0, FAR, held=0.9)),
        "prefetch",
        {"latency": 1596.8},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_built_case_is_named_and_its_stall_recovered(case):
    model, name, stalls_ms = CASES[case]

    limit = model.limit
    found_ms = {one: 1e3 * seconds for one, seconds in model.stalls.items()}

    assert limit is not None
    assert limit.stage == name
    others = {one for one in found_ms if one not in stalls_ms and one != "compute"}
    for one, expected in stalls_ms.items():
        assert found_ms[one] == pytest.approx(expected, rel=0.1, abs=2.0)
    assert all(found_ms[one] <= 0.1 * (sum(found_ms.values())) + 2.0 for one in others)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("transform that sleeps", "sleeps"),
        ("transform that computes", "computes"),
        ("transform that holds the lock", "holds the lock"),
    ],
)
def test_what_a_transform_does_is_told(case, kind):
    assert CASES[case][0].transform.kind == kind


def test_an_idle_pipeline_has_no_stall():
    stalls = FAST.stalls

    assert stalls["compute"] == pytest.approx(BATCH * 0.1 * MS)
    assert sum(stalls.values()) == pytest.approx(stalls["compute"])


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("slow store", {}),
        ("narrow store", {}),
        ("slow decode", {}),
        ("transform that sleeps", {"workers": 65}),
        ("transform that computes", {}),
        ("transform that holds the lock", {"engine": "processes", "workers": 4}),
        ("slow consumer", {}),
        ("small prefetch", {"prefetch": "256MiB"}),
    ],
)
def test_settings_change_what_limits_the_rate_and_nothing_else(case, settings):
    model = CASES[case][0]

    found, changed = faster(model, RESOURCES)

    assert found == settings
    assert bool(settings) == (changed.rate.value > model.rate.value)


def test_a_cache_is_proposed_where_the_epoch_fits_and_the_store_is_the_limit():
    model = CASES["narrow store"][0]

    found, _ = faster(model, replace(RESOURCES, epoch_nbytes=500 << 20))

    assert found == {"cache": "550MiB"}


def test_processes_are_not_proposed_for_a_transform_that_cannot_be_sent():
    model = CASES["transform that holds the lock"][0]

    found, _ = faster(model, replace(RESOURCES, can_fork=False))

    assert "engine" not in found


@pytest.mark.parametrize(("cores", "is_noted"), [(0.5, True), (4.0, False)])
def test_a_lock_that_a_busy_machine_hides_is_noted(cores, is_noted):
    model = replace(CASES["transform that computes"][0], cores=exactly(cores))

    found = Diagnosis(model, measured=model.rate, settings={}, expected=model.rate)

    assert ("hold the interpreter's lock" in str(found)) == is_noted


THREADED = Demand(exactly(5 * MS), exactly(9 * MS), native=exactly(4 * MS))


def test_threads_of_a_transform_are_told_from_the_lock():
    model = replace(FAST, transform=THREADED)

    settings, _ = faster(model, RESOURCES)
    found = Diagnosis(model, model.rate, settings, expected=model.rate)

    assert model.transform.kind == "runs threads of its own"
    assert "engine" not in settings
    assert "OPENBLAS_NUM_THREADS=1" in str(found)
    assert "lock of Python" not in str(found)


def test_a_collate_function_that_waits_takes_workers_and_no_cores():
    model = replace(FAST, collate=sleeping(1.6 * MS))

    settings, _ = faster(model, RESOURCES)

    assert model.limit is not None
    assert (model.limit.resource, model.limit.stage) == ("threads", "collate")
    assert settings["workers"] > model.workers


def test_work_that_is_no_stage_of_its_own_is_the_rest():
    model = replace(FAST, decode=computing(0.5 * MS), rest_cpu=exactly(8.3 * MS))

    found = Diagnosis(model, model.rate, {}, expected=model.rate)

    assert found.bottleneck == "rest"
    assert "batch_size" in found.sentence


@pytest.mark.parametrize(("factor", "is_noted"), [(0.3, True), (1.0, False), (4.0, True)])
def test_a_measured_rate_outside_the_range_is_noted(factor, is_noted):
    found = Diagnosis(FAST, FAST.rate.times(factor), {}, expected=FAST.rate)

    assert ("is not in the model's range" in str(found)) == is_noted


def test_ceilings_that_may_be_the_lowest_are_rivals():
    wide = Estimate(4 * MS, 1 * MS, 8 * MS)
    model = replace(FAST, decode=Demand(wide, wide), transform=sleeping(3 * MS))

    limit = model.limit

    assert limit is not None
    assert limit.stage == "decode"
    assert model.rate.low < model.rate.value < model.rate.high


seconds = st.floats(0.0, 0.1)
demands = st.builds(
    lambda wall, cpu, lock: Demand(exactly(wall), exactly(wall * cpu), exactly(wall * cpu * lock)),
    seconds,
    st.floats(0, 1),
    st.floats(0, 1),
)
models = st.builds(
    Model,
    workers=st.integers(1, 64),
    cores=st.floats(0.1, 64).map(exactly),
    batch_rows=st.integers(1, 1024).map(float),
    step=demands,
    transfer=demands,
    decode=demands,
    collate=demands,
    transform=demands,
    store=st.none()
    | st.builds(store, st.none() | st.floats(0.1, 100), st.just(FAR) | st.just(NARROW)),
)


@given(models)
def test_the_parts_of_a_step_add_up_to_its_time(model):
    stalls, rate = model.stalls, model.rate.value

    assert all(value >= 0 for value in stalls.values())
    assert sum(stalls.values()) == pytest.approx(model.batch_rows / rate, abs=1e-12)
    assert model.rate.low <= rate <= model.rate.high


@given(models, st.integers(1, 32), st.booleans())
def test_settings_never_lower_the_rate(model, cores, can_fork):
    resources = replace(RESOURCES, cores=cores, can_fork=can_fork)

    settings, changed = faster(model, resources)

    assert changed.rate.value >= model.rate.value
    if set(settings) - {"cache"}:
        assert changed.rate.value >= 1.1 * model.rate.value
