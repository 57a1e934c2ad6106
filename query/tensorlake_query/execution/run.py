"""The state shared by the steps of one run: its deadline, its limits and its counts."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from threading import current_thread, main_thread
from typing import Self, TypeVar

from msgspec import Struct, field, structs

from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import Scope
from tensorlake_query.execution.workers import WATCHED_ROWS, Workers, watched
from tensorlake_query.planning.plan import Plan
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import QueryLimitError, joined
from tensorlake_query.values.memory import Account, Held, TooMuchMemoryError, charge, collecting
from tensorlake_query.values.meter import Meter
from tensorlake_query.values.source import ColumnSource, Tables

Made = TypeVar("Made")

ROW_NBYTES = 8  # of a row's number
MADE_NBYTES = 40  # of a row while it is made: its number, where it comes from, how often
MAX_MADE_ROWS = 1 << 28  # their numbers alone are 2 GiB
MAX_PAIRS_MADE = 1 << 36  # of one join, a piece at a time: some ten minutes of a core


class Deadline(Struct, frozen=True):
    """When a run must end; `clock` gives seconds, `cancelled` tells whether it was called off."""

    clock: Callable[[], float]
    stop: float | None
    timeout_s: float | None
    text: str
    cancelled: Callable[[], bool] | None = None

    def check(self, done: int, total: int) -> None:
        """Raise when the time is up, or the run was called off.

        Raises:
            QueryLimitError: it is.
        """
        where = f"{done:,} rows into a step of {total:,}"
        self._check(where, "give more time, or narrow it with WHERE or LIMIT")

    def check_parsing(self, done: int) -> None:
        """Raise when the time is up, or the run was called off, while the text is parsed.

        Raises:
            QueryLimitError: it is.
        """
        where = f"{done:,} of its {len(self.text):,} characters parsed"
        self._check(where, "give more time, or pass long lists as parameters: x IN $ids")

    def check_binding(self) -> None:
        """Raise when the time is up, or the run was called off, while names are looked up.

        Raises:
            QueryLimitError: it is.
        """
        hint = "give more time, or write a query of fewer parts"
        self._check("while its names and types were checked", hint)

    def check_batch(self) -> None:
        """Raise when the time is up, or the run was called off, inside of a batch.

        Raises:
            QueryLimitError: it is.
        """
        self._check("in the middle of a batch", "give more time, or narrow it with WHERE or LIMIT")

    def check_opening(self) -> None:
        """Raise when the time is up, or the run was called off, while a source is opened.

        Raises:
            QueryLimitError: it is.
        """
        self._check("while a source of FROM was opened", "give more time, or check its address")

    @property
    def may_end(self) -> bool:
        """Whether it ever does."""
        return self.stop is not None or self.cancelled is not None

    def _check(self, where: str, hint: str) -> None:
        if self.stop is not None and self.clock() > self.stop:
            raise QueryLimitError(
                f"the query ran past its timeout of {self.timeout_s} s, {where}",
                text=self.text,
                span=ast.Span(0, len(self.text)),
                hint=hint,
            )
        if self.cancelled is not None and self.cancelled():
            raise QueryLimitError(
                f"the query was cancelled, {where}",
                text=self.text,
                span=ast.Span(0, len(self.text)),
            )


class WatchedTables(Struct, frozen=True):
    """Tables whose opening, which may wait for a store, ends with the time of the query."""

    tables: Tables
    deadline: Deadline

    def table(self, name: str, version: tuple[str, str] | None) -> ColumnSource:
        """Return a source by name or URL.

        Raises:
            QueryLimitError: the time is up.
        """
        work = partial(self.tables.table, name, version)
        return watched(work, self.deadline.check_opening, Account())


class StepCount(Struct):
    """The work done by one step of a plan."""

    rows: int = 0
    batches: int = 0
    seconds: float = 0.0


class StepCounts(Struct):
    """The work done by the steps of a plan, by identity of the step."""

    clock: Callable[[], float] = time.perf_counter
    steps: dict[int, StepCount] = field(default_factory=dict[int, StepCount])

    def timed(self, step: Plan, scopes: Iterator[Scope]) -> Iterator[Scope]:
        """Pass on the batches of a step, and count them; its time is that of its inputs too."""
        count = self.steps.setdefault(id(step), StepCount())
        while True:
            started = self.clock()
            scope = next(scopes, None)
            count.seconds += self.clock() - started
            if scope is None:
                return
            count.rows += len(scope)
            count.batches += 1
            yield scope

    def note(self, step: Plan) -> str:
        """Return what is known of a step, as a plan shows it."""
        count = self.steps.get(id(step))
        if count is None:
            return ""
        plural = "" if count.rows == 1 else "s"
        return f"   [{count.rows:,} row{plural}, {count.seconds * 1e3:.1f} ms]"


class Run(Struct):
    """One run of a query.

    Attributes:
        deadline: when it must end.
        meter: the bytes of samples read.
        text: the query, for errors to point at.
        counts: the work of each step; None if not requested.
        readers: everything that was read from, in order of opening.
        workers: compute batches side by side, until the run is left.
        memory: what may be held, and is.
        advice: how to allow more memory.
        lookups: what indexes found, in words.
    """

    deadline: Deadline
    meter: Meter
    text: str
    counts: StepCounts | None = None
    readers: list[SourceReader] = field(default_factory=list[SourceReader])
    workers: Workers = field(default_factory=Workers)
    memory: Account = field(default_factory=Account)
    advice: str = ""
    lookups: list[str] = field(default_factory=list[str])
    _held: Held | None = None

    @contextmanager
    def entered(self) -> Generator[Self]:
        """Run in the block; memory held at its end belongs to the result.

        Raises:
            QueryLimitError: a step would hold more memory than there may be held.
        """
        self._held = Held(self.memory, "the result")
        try:
            with collecting(self._held):
                yield self
        except TooMuchMemoryError as error:
            raise self._too_much(error) from None
        finally:
            self.workers.close()

    def reading(self) -> "Run":
        """Return a run for reading the result later: its memory is limited alike."""
        return Run(
            structs.replace(self.deadline, stop=None, cancelled=None),
            self.meter,
            self.text,
            readers=self.readers,
            memory=Account(self.memory.limit),
            advice=self.advice,
        )

    @contextmanager
    def step(self, operator: str) -> Generator[None]:
        """Collect what a step takes; at its end all but what it has kept goes back."""
        held = Held(self.memory, operator)
        try:
            with collecting(held):
                yield
        finally:
            held.drop()

    def keep(self, nbytes: int) -> None:
        """Hold bytes for as long as the result is.

        Raises:
            TooMuchMemoryError: they are more than are left.
        """
        assert self._held is not None, "a run is entered"
        self._held.add(nbytes)

    def _too_much(self, error: TooMuchMemoryError) -> QueryLimitError:
        return QueryLimitError(
            f"{error.operator} would hold {error.nbytes:,} bytes more than the"
            f" {error.held:,} that the query holds, and it may hold {error.limit:,} in all",
            text=self.text,
            span=error.place or ast.Span(0, len(self.text)),
            hint=joined("narrow it with WHERE or LIMIT", self.advice),
        )

    def watched(self, num_rows: int, work: Callable[[], Made]) -> Made:
        """Do work on all rows at once; a timeout, or Ctrl-C, does not wait for its end.

        Args:
            num_rows: how many rows it is about.
            work: reads nothing from a source, and calls no function of the user.
        """
        is_waited_for = self.deadline.stop is None and self.deadline.cancelled is None
        if num_rows < WATCHED_ROWS or (is_waited_for and current_thread() is not main_thread()):
            return work()
        return watched(work, partial(self.deadline.check, 0, num_rows), self.memory)

    def check_made(self, num_rows: int, before: int = 0) -> None:
        """Raise before a step makes more rows out of those it has than may be held.

        The numbers of such rows count as bytes read, so that `max_nbytes` bounds them too.

        Args:
            num_rows: how many it is about to make.
            before: how many it has made.

        Raises:
            QueryLimitError: they are too many, or the time is up.
        """
        self.check_held(before + num_rows)
        self.count_made(num_rows)

    def check_held(self, num_rows: int) -> None:
        """Raise where a step is to hold more rows that it makes than may be.

        Raises:
            QueryLimitError: they are too many.
        """
        if num_rows > MAX_MADE_ROWS:
            raise QueryLimitError(
                f"a step makes {num_rows:,} rows, more than {MAX_MADE_ROWS:,}",
                text=self.text,
                span=ast.Span(0, len(self.text)),
                hint="join on an equality, or narrow the sides with WHERE",
            )

    def check_pairs(self, count: int) -> None:
        """Raise before a join makes more pairs than may be, even if none is held.

        Raises:
            QueryLimitError: they are too many.
        """
        if count > MAX_PAIRS_MADE:
            raise QueryLimitError(
                f"a join makes {count:,} pairs of rows, more than {MAX_PAIRS_MADE:,}",
                text=self.text,
                span=ast.Span(0, len(self.text)),
                hint="add an equality to ON, or narrow the sides with WHERE",
            )

    def count_made(self, num_rows: int) -> None:
        """Count rows that a step is about to make, for as long as it takes.

        Raises:
            QueryLimitError: they are too many bytes, or the time is up.
        """
        self.deadline.check(0, num_rows)
        self.meter.count(num_rows * ROW_NBYTES)
        charge(num_rows * MADE_NBYTES)
