"""Durations and sizes: every argument that is one takes the same forms."""

import datetime as dt
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.quantities import duration_of, parse_nbytes, seconds_of

DAY = dt.timedelta(days=1)
NOT_DURATIONS = [
    -1,
    "soon",
    "90",
    "-1s",
    "1.h",
    np.timedelta64(5),
    np.timedelta64(5, "M"),
    np.timedelta64("NaT", "s"),
    -DAY,
    float("nan"),
    float("inf"),
    10**400,
    True,
    b"1s",
    [],
]
NOT_SIZES = [-1, "much", "-1", 1.5, float("nan"), 1 << 63, "9" * 400 + "TB", True, b"1", []]


@pytest.fixture
def ds(request):
    with tl.create(f"memory://{request.node.name}", {"x": "int64"}) as made:
        made.extend({"x": [1, 2, 3]})
        made.commit("three")
        yield made


@pytest.mark.parametrize(
    "form",
    [
        *(86_400, 86_400.0, np.float32(86_400), np.int64(86_400), DAY, np.timedelta64(24, "h")),
        *("1d", "24h", " 86400 s ", "1440.0min"),
    ],
)
def test_a_duration_is_seconds_or_a_timedelta_or_a_string_with_a_unit(form):
    assert duration_of(form, what="timeout") == DAY
    assert seconds_of(form, what="timeout") == 86_400


def test_a_duration_may_have_a_fraction():
    assert [seconds_of(form, what="timeout") for form in ("0.1s", "1.5h")] == [0.1, 5400]


@pytest.mark.parametrize("form", NOT_DURATIONS, ids=lambda form: f"{form!r:.20}")
def test_what_is_not_a_duration_is_refused_by_the_arguments_name(form):
    with pytest.raises(tl.InvalidInputError, match=r"^timeout=.* is not a duration") as raised:
        duration_of(form, what="timeout")

    assert raised.value.argument == "timeout"


@pytest.mark.parametrize("form", NOT_SIZES, ids=lambda form: f"{form!r:.20}")
def test_what_is_not_a_size_is_refused_by_the_arguments_name(form):
    with pytest.raises(tl.InvalidInputError, match=r"^prefetch=.* is not a size"):
        parse_nbytes(form, name="prefetch")


@pytest.mark.parametrize("timeout", [60, dt.timedelta(minutes=1), "1min"])
def test_every_call_with_a_duration_takes_every_form(ds, timeout):
    assert ds.query("WHERE x > 1", timeout=timeout).count() == 2
    assert len(next(iter(ds.loader(batch_size=3, timeout=timeout)))["x"]) == 3
    with tl.create("memory://durations-grace", {"x": "int64"}, grace=timeout) as made:
        assert made.gc().deleted_packs == 0
        tl.delete(made.url, confirm=made.url)


@pytest.mark.parametrize("none", [0, dt.timedelta(0), "0s"])
def test_follow_takes_durations(ds, none):
    assert [commit.message for commit in ds.at("main@0").follow(timeout=none)] == ["three"]
    assert list(ds.follow(poll="1ms", timeout=dt.timedelta(milliseconds=2))) == []


@pytest.mark.parametrize("form", NOT_DURATIONS, ids=lambda form: f"{form!r:.20}")
def test_no_call_takes_what_is_not_a_duration(ds, form):
    for argument, call in {
        "timeout": lambda: ds.query("WHERE x > 1", timeout=form),
        "timeout ": lambda: ds.loader(batch_size=3, timeout=form),
        "timeout  ": lambda: ds.follow(timeout=form),
        "poll": lambda: ds.follow(poll=form),
        "older_than": lambda: ds.expire(older_than=form),
        "grace": lambda: tl.create("memory://durations-none", {"x": "int64"}, grace=form),
    }.items():
        with pytest.raises(tl.InvalidInputError) as raised:
            call()
        assert raised.value.argument == argument.strip()
    assert not tl.exists("memory://durations-none")


def test_what_expires_versions_needs_a_unit(ds):
    with pytest.raises(tl.InvalidInputError, match="older_than=90 has no unit"):
        ds.expire(older_than=90)

    assert str(ds.expire(older_than=DAY, dry_run=True)) == str(ds.expire(older_than="1d"))


def test_a_wait_that_no_lock_can_hold_is_refused(ds):
    longer = threading.TIMEOUT_MAX * 2
    for call in (lambda: ds.follow(poll=longer), lambda: ds.loader(batch_size=3, timeout=longer)):
        with pytest.raises(tl.InvalidInputError, match="duration above 0"):
            call()
