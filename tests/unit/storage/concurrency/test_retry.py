"""What is tried again, how often and how long apart."""

import asyncio

import pytest

from tensorlake.storage import RetryPolicy, Surroundings, retry


class World:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.now += delay_s

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(clock=lambda: self.now, sleep=self.sleep, jitter=lambda: 1.0)


def attempt(world: World, outcomes: list, policy: RetryPolicy | None = None):
    remaining = iter(outcomes)

    async def call():
        outcome = next(remaining)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return asyncio.run(
        retry(
            call,
            policy=policy or RetryPolicy(),
            is_transient=lambda error: isinstance(error, ConnectionError),
            surroundings=world.surroundings,
        )
    )


def test_success_needs_no_second_attempt():
    world = World()

    assert attempt(world, [42]) == 42
    assert world.slept == []


def test_transient_errors_are_tried_again_with_growing_delays():
    world = World()

    assert attempt(world, [ConnectionError()] * 4 + [42]) == 42
    assert world.slept == [0.1, 0.2, 0.4, 0.8]


def test_other_errors_are_raised_at_once():
    world = World()

    with pytest.raises(KeyError):
        attempt(world, [KeyError("no"), 42])
    assert world.slept == []


def test_last_error_is_raised_when_attempts_are_used_up():
    world = World()

    with pytest.raises(ConnectionError, match="third"):
        attempt(
            world,
            [ConnectionError("first"), ConnectionError("second"), ConnectionError("third"), 42],
            RetryPolicy(attempts=3),
        )


def test_deadline_ends_the_attempts():
    world = World()
    policy = RetryPolicy(attempts=1000, deadline_s=60.0)

    with pytest.raises(ConnectionError):
        attempt(world, [ConnectionError()] * 1000, policy)

    assert 30 < world.now <= 60


def test_delays_are_bounded_and_jittered_by_half():
    policy = RetryPolicy()

    assert policy.delay_s(100, jitter=1.0) == policy.max_delay_s
    assert policy.delay_s(1, jitter=0.0) == pytest.approx(0.05)
