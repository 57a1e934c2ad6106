"""The bound on what is in flight to a store."""

import asyncio

import pytest

from tensorlake.storage import Flight


def most_at_once(flight: Flight, sizes: list[int]) -> tuple[int, int]:
    """Run requests of these sizes; the most requests, and the most bytes, seen at once."""
    running: list[int] = []
    most = [0, 0]

    async def request(nbytes: int) -> None:
        async with flight.admit(nbytes):
            running.append(nbytes)
            most[:] = max(most[0], len(running)), max(most[1], sum(running))
            await asyncio.sleep(0)
            running.remove(nbytes)

    async def all_of_them() -> None:
        await asyncio.gather(*(request(nbytes) for nbytes in sizes))

    asyncio.run(all_of_them())
    return most[0], most[1]


def test_requests_are_bounded():
    assert most_at_once(Flight(max_requests=3), [1] * 20) == (3, 3)


def test_requests_sent_together_take_as_many_places():
    flight = Flight(max_requests=4)
    seen = []

    async def call(requests: int) -> None:
        async with flight.admit(requests=requests):
            seen.append(requests)
            await asyncio.sleep(0)
            assert sum(seen) <= 4
            seen.remove(requests)

    async def all_of_them() -> None:
        await asyncio.gather(*(call(requests) for requests in (3, 2, 1, 2, 3)))

    asyncio.run(all_of_them())
    assert most_at_once(flight, [1] * 20) == (4, 4)  # every place was given back


def test_bytes_are_bounded():
    assert most_at_once(Flight(max_nbytes=10), [4] * 20) == (2, 8)


def test_request_above_the_bound_goes_alone():
    assert most_at_once(Flight(max_nbytes=10), [1, 50, 1]) == (1, 50)


def test_large_request_is_not_starved_by_small_ones():
    order: list[int] = []

    async def request(flight: Flight, nbytes: int) -> None:
        async with flight.admit(nbytes):
            order.append(nbytes)
            await asyncio.sleep(0)

    async def arrive() -> None:
        flight = Flight(max_nbytes=10)
        await asyncio.gather(*(request(flight, nbytes) for nbytes in [6, 10, 1, 1, 1]))

    asyncio.run(arrive())

    assert order == [6, 10, 1, 1, 1]


def test_cancelled_waiter_gives_its_place_to_the_next():
    async def scenario() -> list[str]:
        flight = Flight(max_requests=1)
        done: list[str] = []

        async def request(name: str) -> None:
            async with flight.admit():
                done.append(name)

        async with flight.admit():
            waiting = asyncio.ensure_future(request("cancelled"))
            last = asyncio.ensure_future(request("last"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
        await asyncio.wait_for(last, timeout=60)
        return done

    assert asyncio.run(scenario()) == ["last"]


def test_waiter_cancelled_as_it_is_let_in_gives_its_place_back():
    async def scenario() -> None:
        flight = Flight(max_requests=1)

        async def request() -> None:
            async with flight.admit():
                await asyncio.sleep(0)

        async with flight.admit():
            waiting = asyncio.ensure_future(request())
            await asyncio.sleep(0)
        waiting.cancel()  # let in by the line above, not yet run
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(request(), timeout=60)

    asyncio.run(scenario())


def test_failed_request_gives_its_place_back():
    flight = Flight(max_requests=1)

    async def fail() -> None:
        async with flight.admit():
            raise ValueError("failed")

    async def scenario() -> None:
        for _ in range(3):
            with pytest.raises(ValueError, match="failed"):
                await asyncio.wait_for(fail(), timeout=60)

    asyncio.run(scenario())


def test_loops_one_after_another_do_not_share_a_line():
    flight = Flight(max_requests=1)

    assert most_at_once(flight, [1] * 4) == (1, 1)
    assert most_at_once(flight, [1] * 4) == (1, 1)
