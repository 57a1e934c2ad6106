"""One read for all who ask for the same thing while it is on its way."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from tensorlake.errors import StorageError
from tensorlake.storage import SingleFlight
from tests.support.collector import no_collection

ASKING = 8


class Source:
    """What is read: slow until told, and counted."""

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def read(self) -> str:
        self.started += 1
        try:
            await self.gate.wait()
            if self.error is not None:
                raise self.error
            return "value"
        finally:
            self.ended += 1


async def asked(flights: SingleFlight[str, str], source: Source, count: int = ASKING):
    """Ask so many times, and wait until all of them wait for the read."""
    tasks = [asyncio.create_task(flights.read("key", source.read)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def run(test):
    """Run a test on a loop that lets nothing pass unseen."""
    seen = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: seen.append(told))
        await asyncio.wait_for(test(), 60)

    asyncio.run(watched())
    gc.collect()
    assert seen == []


def test_all_who_ask_meanwhile_get_what_is_read_once():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        tasks = await asked(flights, source)
        source.gate.set()

        assert await asyncio.gather(*tasks) == ["value"] * ASKING
        assert (source.started, len(flights)) == (1, 0)

    run(test)


def test_different_things_are_read_at_the_same_time():
    async def test():
        flights, all_under_way = SingleFlight[str, str](), asyncio.Barrier(3)

        async def read() -> str:
            await all_under_way.wait()
            return "value"

        found = await asyncio.gather(*(flights.read(key, read) for key in "abc"))

        assert found == ["value"] * 3

    run(test)


def test_who_asks_later_reads_anew():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        source.gate.set()

        for _ in range(2):
            assert await flights.read("key", source.read) == "value"
        assert source.started == 2

    run(test)


def test_an_error_is_that_of_all_who_waited_and_who_asks_next_tries_anew():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        source.error = StorageError("gone")
        tasks = await asked(flights, source)
        source.gate.set()

        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(one) for one in found] == ["gone"] * ASKING
        assert len(flights) == 0
        source.error = None
        assert await flights.read("key", source.read) == "value"
        assert source.started == 2

    run(test)


def test_who_asks_in_the_moment_of_an_error_tries_anew():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        source.error = StorageError("gone")
        again = []

        async def ask_when_it_fails() -> str:
            try:
                return await source.read()
            finally:
                again.append(asyncio.create_task(flights.read("key", working.read)))

        working = Source()
        working.gate.set()
        first = asyncio.create_task(flights.read("key", ask_when_it_fails))
        source.gate.set()

        with pytest.raises(StorageError, match="gone"):
            await first
        assert await again[0] == "value"

    run(test)


def test_who_stops_waiting_disturbs_nobody_else():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        first, *others = await asked(flights, source)
        first.cancel()  # it started the read
        with pytest.raises(asyncio.CancelledError):
            await first
        source.gate.set()

        assert await asyncio.gather(*others) == ["value"] * len(others)
        assert source.started == 1

    run(test)


def test_a_read_that_nobody_waits_for_has_ended_before_the_last_goes_on():
    async def test():
        flights, source = SingleFlight[str, str](), Source()
        tasks = await asked(flights, source)
        for task in tasks:
            task.cancel()

        found = await asyncio.gather(*tasks, return_exceptions=True)

        assert all(isinstance(one, asyncio.CancelledError) for one in found)
        assert (source.started, source.ended, len(flights)) == (1, 1, 0)

    run(test)


def test_a_read_that_fails_while_it_is_given_up_is_reported_to_nobody():
    async def test():
        flights = SingleFlight[str, str]()

        async def read() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                raise StorageError("on the way out")

        task = asyncio.create_task(flights.read("key", read))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)


def test_a_read_of_a_loop_that_is_gone_is_not_waited_for():
    flights = SingleFlight[str, str]()
    gone = asyncio.new_event_loop()
    source = Source()
    waiting = gone.create_task(flights.read("key", source.read))
    while not source.started:
        gone.run_until_complete(asyncio.sleep(0))

    async def test():
        working = Source()
        working.gate.set()
        assert await flights.read("key", working.read) == "value"

    run(test)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        gone.run_until_complete(waiting)
    gone.close()


def test_an_error_leaves_nothing_in_a_circle():
    class Held:
        """Something large that a frame of the read holds."""

    async def test():
        flights = SingleFlight[str, str]()

        async def read() -> str:
            held = Held()
            seen.append(weakref.ref(held))
            raise StorageError("gone")

        seen: list[weakref.ref[Held]] = []
        with no_collection():
            with suppress(StorageError):
                await flights.read("key", read)
            for _ in range(3):  # callbacks of the task that has ended
                await asyncio.sleep(0)
            assert seen[0]() is None

    run(test)
