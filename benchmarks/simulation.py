"""A store with S3's limits, simulated event by event: what 10⁹ rows and 10³ nodes would ask of it.

``python -m benchmarks.simulation`` prints the tables of docs/explanation/scale.md. A request takes
the latency of the store; requests above the limit of a prefix are refused with 503, and repeated
under the product's own retry policy. The number of requests of each operation is measured on the
product (`benchmarks.scale`, `tests/integration/storage/test_requests.py`); the simulation adds the
waiting. Equal seeds give equal tables.

    commit       pack PUT → entry PUT-if-absent at the next number; the loser reads those since
                 (2 GETs, one after the other) and puts its own again
    group        a server collects members for 20 ms, at most 64, and commits for them
    read         one GET a chunk, or a row; at most `AHEAD` in flight a node

Source of the limits: "Best practices design patterns: optimizing Amazon S3 performance", 3,500 PUT
and 5,500 GET a second and prefix.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from tensorlake.storage import RetryPolicy

__all__ = ["Store", "commits_per_s", "group_commits_per_s", "read_requests_per_s"]

PUTS_PER_S, GETS_PER_S = 3500, 5500
LATENCY_S = 0.02
SPREAD = 0.25
"""Latencies are between 1 − SPREAD and 1 + SPREAD of it."""

GROUP_WAIT_S, GROUP_MEMBERS = 0.02, 64
AHEAD = 64
ROW_NBYTES, CHUNK_ROWS = 100_000, 80

Process = Generator[tuple[str, Callable[[], bool] | float], bool | None, None]
"""Yields ("put" or "get", the effect in the store) or ("wait", seconds); gets whether it held."""


@dataclass(slots=True)
class Store:
    """A clock, and one prefix with its limits: a token bucket of one second for each kind.

    Attributes:
        latency_s: Mean seconds of a request.
        puts: Most PUTs a second.
        gets: Most GETs a second.
        seed: Of latencies and jitters.
        now: Seconds since the beginning.
        counts: Requests that were answered, by kind; "refused": those above the limit.
    """

    latency_s: float = LATENCY_S
    puts: float = PUTS_PER_S
    gets: float = GETS_PER_S
    seed: int = 1
    now: float = 0.0
    counts: dict[str, int] = field(default_factory=lambda: {"put": 0, "get": 0, "refused": 0})
    _events: list[tuple[float, int, Process, bool | None]] = field(default_factory=list)
    _tokens: dict[str, tuple[float, float]] = field(default_factory=dict)
    _random: random.Random = field(default_factory=random.Random)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def start(self, process: Process) -> None:
        """Let a process begin now."""
        self._at(self.now, process, answer=None)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, process, answer = heapq.heappop(self._events)
            try:
                kind, what = process.send(answer)
            except StopIteration:
                continue
            if callable(what):
                self._request(kind, what, process)
            else:
                self._at(self.now + what, process, answer=True)
        self.now = end

    def _at(self, when: float, process: Process, *, answer: bool | None) -> None:
        heapq.heappush(self._events, (when, next(self._order), process, answer))

    def _request(self, kind: str, effect: Callable[[], bool], process: Process) -> None:
        """Send a request: its effect is in the middle of its latency, after any refusals."""
        half = self.latency_s * (1 + SPREAD * (2 * self._random.random() - 1)) / 2

        def sent() -> Process:
            policy, attempt = RetryPolicy(), 1
            while not self._may(kind):
                self.counts["refused"] += 1
                yield "wait", 2 * half + policy.delay_s(attempt, self._random.random())
                attempt = min(attempt + 1, policy.attempts)
            self.counts[kind] += 1
            held = effect()
            self._at(self.now + half, process, answer=held)

        self._at(self.now + half, sent(), answer=None)

    def _may(self, kind: str) -> bool:
        """Take a token of a kind, if there is one."""
        limit = self.puts if kind == "put" else self.gets
        tokens, since = self._tokens.get(kind, (limit, 0.0))
        tokens = min(limit, tokens + (self.now - since) * limit)
        is_given = tokens >= 1
        self._tokens[kind] = (tokens - is_given, self.now)
        return is_given


@dataclass(slots=True)
class _Log:
    """A branch: the number of its entries, and the commits that were acknowledged."""

    entries: int = 0
    commits: int = 0


def _published(log: _Log, known: list[int], pause: Callable[[], float]) -> Process:
    """Publish one commit, as `tensorlake.versions` does: no wait after the first lost race.

    Args:
        log: The branch.
        known: The number of entries that the writer knows; brought up to date.
        pause: The seconds of a wait.
    """

    def put() -> bool:
        if log.entries != known[0]:
            return False
        log.entries += 1
        known[0] = log.entries
        return True

    def read() -> bool:
        known[0] = log.entries
        return True

    for race in itertools.count():
        held = yield "put", put
        if held:
            return
        if race:
            yield "wait", pause()
        yield "get", read
        yield "get", lambda: True  # what the entries that were read replace


def commits_per_s(writers: int, *, seconds: float = 60.0, store: Store | None = None) -> float:
    """Simulate writers that commit one row after the other to one branch."""
    store = store or Store()
    log, chance = _Log(), random.Random(store.seed + 1)

    def writer() -> Process:
        known = [0]
        while True:
            yield "put", lambda: True
            yield from _published(log, known, lambda: store.latency_s * chance.uniform(1, 20))
            log.commits += 1

    for _ in range(writers):
        store.start(writer())
    store.run(seconds)
    return log.commits / seconds


def group_commits_per_s(
    clients: int, *, seconds: float = 60.0, store: Store | None = None
) -> float:
    """Simulate clients whose appends a server joins: each waits until its own is durable."""
    store = store or Store()
    waiting, acknowledged = [clients], [0]

    def server() -> Process:
        while True:
            yield "wait", GROUP_WAIT_S
            members = min(GROUP_MEMBERS, waiting[0])
            if members:
                waiting[0] -= members
                yield "put", lambda: True
                yield "put", lambda: True
                acknowledged[0] += members
                waiting[0] += members

    store.start(server())
    store.run(seconds)
    return acknowledged[0] / seconds


def read_requests_per_s(
    nodes: int, *, rows_per_s: float, rows_per_get: float, seconds: float = 20.0
) -> tuple[float, float]:
    """Simulate nodes that stream; return the rows a second of all, and the share of refusals."""
    store = Store()
    done = [0.0]
    every = rows_per_get / rows_per_s * AHEAD  # of one of a node's requests in flight

    def stream(offset: float) -> Process:
        yield "wait", offset
        while True:
            began = store.now
            yield "get", lambda: True
            done[0] += rows_per_get
            yield "wait", max(0.0, every - (store.now - began))

    chance = random.Random(store.seed)
    for _ in range(nodes * AHEAD):
        store.start(stream(every * chance.random()))
    store.run(seconds)
    sent = store.counts["get"] + store.counts["refused"]
    return done[0] / seconds, store.counts["refused"] / max(1, sent)


def main() -> None:
    """Print the tables."""
    print("| writers of one branch | commits/s, each its own | commits/s, through a server |")
    print("| --- | --- | --- |")
    for writers in (1, 8, 32, 128, 512, 1000):
        alone, group = commits_per_s(writers), group_commits_per_s(writers)
        print(f"| {writers:,} | {alone:,.1f} | {group:,.0f} |")
    print("\n| nodes, 1,000 rows/s each | one GET a row | one GET a chunk of 80 rows |")
    print("| --- | --- | --- |")
    for nodes in (4, 8, 64, 256, 440):
        cells = []
        for rows_per_get in (1, CHUNK_ROWS):
            rows, refused = read_requests_per_s(nodes, rows_per_s=1000, rows_per_get=rows_per_get)
            cells.append(f"{rows / nodes / 1000:.0%} of the rate; {refused:.0%} refused")
        print(f"| {nodes:,} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
