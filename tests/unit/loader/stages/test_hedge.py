"""A read that takes unusually long is made again; the first answer counts, and nothing is left."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.loader.runtime.counters import Counters
from tensorlake.loader.stages.hedge import LEAST_KNOWN, LEAST_S, Hedge
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

WAIT_S = 60


class Answers:
    """A read of which some calls answer at once, and others when they are told to."""

    def __init__(self, *outcomes):
        self._outcomes = list(outcomes)
        self.asked = 0
        self.cancelled = 0
        self.is_asked_again = asyncio.Event()

    async def __call__(self):
        self.asked += 1
        if self.asked > 1:
            self.is_asked_again.set()
        outcome = self._outcomes.pop(0)
        try:
            if isinstance(outcome, asyncio.Event):
                await outcome.wait()
                return b"late"
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def usual(hedge, count=LEAST_KNOWN):
    for _ in range(count):
        assert await hedge.read(Answers(b"x")) == b"x"


def run(main):
    return asyncio.run(asyncio.wait_for(main, WAIT_S))


def test_a_slow_read_is_made_again_and_the_first_is_cancelled():
    async def main():
        counters = Counters()
        hedge = Hedge(counters)
        await usual(hedge)
        slow = Answers(asyncio.Event(), b"second")
        assert await hedge.read(slow) == b"second"
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
        reading = asyncio.ensure_future(hedge.read(slow))
        await slow.is_asked_again.wait()
        late.set()
        assert await reading == b"late"
        await asyncio.sleep(0)
        assert slow.cancelled == 1

    run(main())


def test_nothing_is_made_again_while_nobody_knows_what_is_usual():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge, LEAST_KNOWN - 1)
        late = asyncio.Event()
        slow = Answers(late, b"second")
        reading = asyncio.ensure_future(hedge.read(slow))
        done, _ = await asyncio.wait([reading], timeout=2.5 * LEAST_S)
        assert (len(done), slow.asked) == (0, 1)
        await usual(hedge, 1)  # now it is known, also for what is under way
        assert await reading == b"second"

    run(main())


def test_a_store_that_is_slow_as_usual_is_not_asked_twice():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        hedge._took.extend([100.0] * LEAST_KNOWN)
        late = asyncio.Event()
        slow = Answers(late, b"second")
        reading = asyncio.ensure_future(hedge.read(slow))
        done, _ = await asyncio.wait([reading], timeout=2.5 * LEAST_S)
        assert (len(done), slow.asked) == (0, 1)
        late.set()
        assert await reading == b"late"

    run(main())


def test_one_read_in_twenty_at_most_is_made_again():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        late = asyncio.Event()
        all_slow = [Answers(late, b"second") for _ in range(8)]
        reading = [asyncio.ensure_future(hedge.read(slow)) for slow in all_slow]
        assert await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        late.set()
        await asyncio.gather(*reading)
        assert sum(slow.asked for slow in all_slow) <= 8 + 2  # a twentieth of 24 reads

    run(main())


def test_an_error_is_the_answer_where_no_other_is_awaited():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        with pytest.raises(LookupError, match="gone"):
            await hedge.read(Answers(LookupError("gone")))

    run(main())


@pytest.mark.parametrize("second", [b"second", LookupError("both")])
def test_one_of_two_that_fails_leaves_the_word_to_the_other(second):
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        late = asyncio.Event()

        async def ask():
            asked.append(None)
            if len(asked) == 1:
                await late.wait()
                raise LookupError("first")
            late.set()
            for _ in range(20):  # the first fails before the second answers
                await asyncio.sleep(0)
            if isinstance(second, Exception):
                raise second
            return second

        asked = []
        if isinstance(second, Exception):
            with pytest.raises(LookupError, match="both"):
                await hedge.read(ask)
        else:
            assert await hedge.read(ask) == second

    run(main())


def test_a_read_that_is_given_up_leaves_neither_under_way():
    async def main():
        hedge = Hedge(Counters())
        await usual(hedge)
        slow = Answers(asyncio.Event(), asyncio.Event())
        reading = asyncio.ensure_future(hedge.read(slow))
        await slow.is_asked_again.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.sleep(0)
        assert slow.cancelled == 2

    run(main())


class ForgetfulStore(MemoryStore):
    """A store that never answers one of its reads of a range, and all others at once."""

    def __init__(self):
        super().__init__()
        self.forgets_after = None
        self.forgotten = threading.Event()

    async def get_range(self, path, start, stop):
        if self.forgets_after is not None:
            self.forgets_after -= 1
            if self.forgets_after == 0:
                self.forgotten.set()
                await asyncio.Event().wait()
        return await super().get_range(path, start, stop)


def test_a_loader_goes_on_where_a_store_forgot_one_request():
    store = ForgetfulStore()
    dataset = create_on(store, {"x": tl.Array("uint8", (1 << 12,))})
    with dataset:
        for _ in range(40):  # each a pack of its own, and so a request
            dataset.extend({"x": np.zeros((2, 1 << 12), "uint8")})
            dataset.commit("more")
        store.forgets_after = 30
        with dataset.loader(batch_size=2, timeout=WAIT_S) as loader:
            assert sum(len(batch["x"]) for batch in loader) == 80
            stats = loader.stats()

    assert store.forgotten.is_set()
    assert stats.hedged == 1
    assert "1 were slow and repeated" in str(stats)
