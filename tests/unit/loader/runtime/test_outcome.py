"""What one thread promises another: the first outcome counts, and none is kept once it is taken."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress

import pytest

from tensorlake.loader.runtime.handoff import Countdown, Outcome
from tests.support.collector import no_collection


class Thing:
    """Something that a weak reference can watch."""


def fail_with_a_frame(outcome):
    """Fail an outcome from a frame that holds it, as a stage that raises does."""
    thing = Thing()
    try:
        [].pop()
    except IndexError as error:
        outcome.fail(error)
    return weakref.ref(thing)


def test_the_first_outcome_counts():
    one, other = Outcome(), Outcome()
    one.settle(1)
    one.settle(2)
    one.fail(LookupError("late"))
    other.fail(LookupError("first"))
    other.settle(2)

    assert one.take() == 1
    with pytest.raises(LookupError, match="first"):
        other.take()


def test_waiting_ends_with_the_outcome_or_the_time():
    outcome = Outcome()

    assert not outcome.wait(0)
    threading.Thread(target=outcome.settle, args=(None,)).start()
    assert outcome.wait(60)
    assert outcome.is_settled


def test_what_is_taken_is_held_no_longer():
    with no_collection():
        outcome, thing = Outcome(), Thing()
        watched = weakref.ref(thing)
        outcome.settle([thing, outcome])
        del thing

        outcome.take()

        assert watched() is None


def test_an_error_that_is_raised_makes_no_circle_of_its_frames():
    with no_collection():
        outcome = Outcome()
        watched = fail_with_a_frame(outcome)
        assert watched() is not None

        with suppress(IndexError):
            outcome.take()

        assert watched() is None


def test_what_is_discarded_is_held_no_longer_and_asking_for_it_is_an_error():
    with no_collection():
        outcome = Outcome()
        watched = fail_with_a_frame(outcome)

        outcome.discard(ValueError("over"))

        assert watched() is None
        assert outcome.is_settled
        with pytest.raises(ValueError, match="over"):
            outcome.take()


def test_who_listens_is_told_once_early_or_late():
    told = []
    early, failed, late = Outcome(), Outcome(), Outcome()
    early.then(lambda: told.append("early"))
    failed.then(lambda: told.append("failed"))

    early.settle(1)
    early.settle(2)
    failed.fail(LookupError())
    late.settle(1)
    late.then(lambda: told.append("late"))

    assert told == ["early", "failed", "late"]


def test_a_countdown_goes_on_when_everything_has_arrived():
    told = []
    countdown = Countdown(3, lambda: told.append("all"), told.append)

    threads = [threading.Thread(target=countdown.arrived) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert told == []
    countdown.arrived()

    assert told == ["all"]


def test_a_countdown_with_a_failure_never_goes_on():
    told, error = [], LookupError("mine")
    countdown = Countdown(2, lambda: told.append("all"), told.append)

    countdown.failed(error)
    countdown.arrived()

    assert told == [error]
