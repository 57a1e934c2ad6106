"""A read that takes unusually long is made again; the first answer counts, and nothing is left."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader.runtime.counters import Counters
from tensorlake.loader.stages.hedge import LEAST_KNOWN, LEAST_S, Hedge
from tensorlake.storage import MemoryStore
from tensorlake.testing import Fault, FaultyStore
from tests.support.handles import create_on, open_on

WAIT_S = 60


class Answers:
    """A read of which some calls answer at once, and others when they are told to."""

    def __init__(self, *outcomes):
        self._outcomes = list(outcomes)
        self.asked = 0
        self.cancelled = 0
        self.ranges = []
        self.is_asked_again = asyncio.Event()

    async def __call__(self, ranges):
        self.asked += 1
        self.ranges.append([*ranges])
        if self.asked > 1:
            self.is_asked_again.set()
        outcome = self._outcomes.pop(0)
        try:
            if isinstance(outcome, asyncio.Event):
                await outcome.wait()
                return [b"late"] * len(ranges)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome] * len(ranges)


ONE = [(0, 100)]
EIGHT = [(1000 * number, 1000 * number + 100) for number in range(8)]


async def usual(hedge, count=LEAST_KNOWN):
    for _ in range(count):
        assert await hedge.read(Answers(b"x"), ONE) == [b"x"]


def run(main):
    return asyncio.run(asyncio.wait_for(main, WAIT_S))


def test_a_slow_read_is_made_again_and_the_first_is_cancelled():
    async def main():
        counters = Counters()
        hedge = Hedge(counters)
        await usual(hedge)
        slow = Answers(asyncio.Event(), b"second")
        assert await hedge.read(slow, ONE) == [b"second"]
        await asyncio.sleep(0)  # the cancelled one ends in the loop's next turn
        assert (slow.asked, slow.cancelled) == (2, 1)
        stats = counters.snapshot()
        assert (stats.hedged, stats.requests) == (1, 1)

    run(main())


def test_the_first_answer_counts_though_the_second_is_under_way():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        late = asyncio.Event()
        slow = Answers(late, asyncio.Event())
        reading = asyncio.ensure_future(hedge.read(slow, ONE))
        await slow.is_asked_again.wait()
        late.set()
        assert await reading == [b"late"]
        await asyncio.sleep(0)
        assert slow.cancelled == 1

    run(main())


def test_nothing_is_made_again_while_nobody_knows_what_is_usual():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge, LEAST_KNOWN - 1)
        late = asyncio.Event()
        slow = Answers(late, b"second")
        reading = asyncio.ensure_future(hedge.read(slow, ONE))
        done, _ = await asyncio.wait([reading], timeout=2.5 * LEAST_S)
        assert (len(done), slow.asked) == (0, 1)
        await usual(hedge, 1)  # now it is known, also for what is under way
        assert await reading == [b"second"]

    run(main())


def test_a_store_that_is_slow_as_usual_is_not_asked_twice():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        hedge._took[0].extend([(100.0, 1)] * LEAST_KNOWN)
        late = asyncio.Event()
        slow = Answers(late, b"second")
        reading = asyncio.ensure_future(hedge.read(slow, ONE))
        done, _ = await asyncio.wait([reading], timeout=2.5 * LEAST_S)
        assert (len(done), slow.asked) == (0, 1)
        late.set()
        assert await reading == [b"late"]

    run(main())


def test_one_read_in_five_at_most_is_made_again():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        late = asyncio.Event()
        all_slow = [Answers(late, b"second") for _ in range(8)]
        reading = [asyncio.ensure_future(hedge.read(slow, ONE)) for slow in all_slow]
        assert await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        late.set()
        await asyncio.gather(*reading)
        assert sum(slow.asked for slow in all_slow) <= 8 + 5  # a fifth of 24 reads

    run(main())


def test_an_error_is_the_answer_where_no_other_is_awaited():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        with pytest.raises(LookupError, match="gone"):
            await hedge.read(Answers(LookupError("gone")), ONE)

    run(main())


@pytest.mark.parametrize("second", [b"second", LookupError("both")])
def test_one_of_two_that_fails_leaves_the_word_to_the_other(second):
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        late = asyncio.Event()

        async def ask(ranges):
            asked.append(None)
            if len(asked) == 1:
                await late.wait()
                raise LookupError("first")
            late.set()
            for _ in range(20):  # the first fails before the second answers
                await asyncio.sleep(0)
            if isinstance(second, Exception):
                raise second
            return [second]

        asked = []
        if isinstance(second, Exception):
            with pytest.raises(LookupError, match="both"):
                await hedge.read(ask, ONE)
        else:
            assert await hedge.read(ask, ONE) == [second]

    run(main())


def test_a_read_that_is_given_up_leaves_neither_under_way():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        slow = Answers(asyncio.Event(), asyncio.Event())
        reading = asyncio.ensure_future(hedge.read(slow, ONE))
        await slow.is_asked_again.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.sleep(0)
        assert slow.cancelled == 2

    run(main())


def test_the_requests_of_a_slow_call_are_made_again_one_by_one_and_each_is_hedged():
    async def main():
        counters = Counters()
        hedge = Hedge(counters)
        for _ in range(6):  # of which one in twenty may be late
            await usual(hedge)
        unanswered = {str(EIGHT): 1, str([EIGHT[3]]): 1}
        asked = []

        async def ask(ranges):
            asked.append([*ranges])
            if unanswered.get(str([*ranges]), 0):
                unanswered[str([*ranges])] -= 1
                await asyncio.Event().wait()
            return [str(one).encode() for one in ranges]

        assert await hedge.read(ask, EIGHT) == [str(one).encode() for one in EIGHT]
        assert asked == [EIGHT, *([one] for one in EIGHT), [EIGHT[3]]]
        assert counters.snapshot().hedged == 9

    run(main())


def test_calls_of_which_a_third_are_late_are_of_requests_of_which_few_are():
    async def main():
        hedge = Hedge(Counters())
        hedge._took[0].extend([(0.02, 8)] * 22 + [(2.0, 8)] * 10)
        hedge._requests = 1000
        slow = Answers(asyncio.Event(), *[b"second"] * 8)

        assert await hedge.read(slow, EIGHT) == [b"second"] * 8

    run(main())


def test_the_usual_time_of_large_requests_is_not_that_of_small_ones():
    async def main():
        hedge = Hedge(Counters())
        hedge._took[1].extend([(100.0, 1)] * LEAST_KNOWN)
        await usual(hedge)
        late = asyncio.Event()
        large = Answers(late)
        reading = asyncio.ensure_future(hedge.read(large, [(0, 4 << 20)]))

        assert await hedge.read(Answers(asyncio.Event(), b"second"), ONE) == [b"second"]
        assert large.asked == 1
        late.set()
        assert await reading == [b"late"]

    run(main())


def test_rows_that_are_read_alone_go_on_where_a_call_is_never_answered():
    memory = MemoryStore()
    with create_on(memory, {"x": tl.Array("uint8", (1 << 14,))}) as dataset:
        dataset.extend({"x": np.arange(1 << 24).astype("uint8").reshape(1024, -1)})
        dataset.commit("rows")
    store = FaultyStore(memory)
    how = {"batch_size": 8, "shuffle": True, "seed": 1, "cache": "64KB", "columns": ["x"]}
    with open_on(store) as dataset, dataset.loader(**how, timeout=WAIT_S) as loader:
        whole = np.concatenate([batch["x"] for batch in loader])
        assert loader.stats().row_reads == 1024
    store.inject(Fault.UNANSWERED, call="get_ranges", skip=20)

    with open_on(store) as dataset, dataset.loader(**how, timeout=WAIT_S) as loader:
        again = np.concatenate([batch["x"] for batch in loader])
        stats = loader.stats()

    assert np.array_equal(again, whole)
    assert stats.hedged > 1


def test_a_loader_goes_on_where_a_store_never_answers_one_request():
    store = FaultyStore(MemoryStore())
    dataset = create_on(store, {"x": tl.Array("uint8", (1 << 12,))})
    with dataset:
        for _ in range(40):  # each a pack of its own, and so a request
            dataset.extend({"x": np.zeros((2, 1 << 12), "uint8")})
            dataset.commit("more")
        store.inject(Fault.UNANSWERED, call="get_range", skip=29)
        with dataset.loader(batch_size=2, timeout=WAIT_S) as loader:
            assert sum(len(batch["x"]) for batch in loader) == 80
            stats = loader.stats()

    assert stats.hedged == 1
    assert "1 were slow and repeated" in str(stats)
