"""The one bridge between the synchronous SDK and asynchronous storage.

    caller's thread            loop thread (daemon, one per process, started on first use)
    run(coroutine) ──────────► awaits it; blocking file I/O runs in the loop's few threads
         ◄──── result or error
    run_here(coroutine)        only the rest of it, once it has to wait for something

- A forked child gets a loop of its own: the parent's thread does not exist there.
- Ctrl-C in the caller cancels the pending coroutine and waits for it to end, so that it does not
  run while the caller cleans up.
- Calls within a `Scope` end when the scope is cancelled, from any thread.
- Code on the loop itself must `await`; calling `run` there would deadlock and raises an error.
"""

from __future__ import annotations

import asyncio
import os
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from tensorlake.errors import InvalidStateError, StorageTimeoutError

T = TypeVar("T")

BLOCKING_THREADS: Final = 16
"""Threads for blocking file I/O: enough to fill a local disk's queue."""

STOP_TIMEOUT_S: Final = 5.0


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.threads = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="tensorlake-io")
        self.loop.set_default_executor(self.threads)
        self.thread = threading.Thread(target=self._serve, name="tensorlake-loop", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Cancel running coroutines, wait for them, and end the thread."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self.loop).result(STOP_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(STOP_TIMEOUT_S)


class _Call(Generic[T]):
    """A coroutine handed to the loop, and its result.

    It exists before the hand-over, because an interrupt may come during it, when the loop already
    runs a coroutine that the caller has no reference to yet.
    """

    __slots__ = ("answer", "coroutine", "loop", "task")

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.coroutine = coroutine
        self.loop = loop
        self.task: asyncio.Task[T] | None = None
        self.answer = Future[T]()

    def start(self) -> None:
        """Begin; on the loop, whose callbacks run in order."""
        self.task = self.loop.create_task(self.coroutine)
        self.task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.answer.cancel()
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())

    def cancel(self) -> None:
        """Cancel it in any state; on the loop."""
        if self.task is None:
            self.coroutine.close()
        else:
            self.task.cancel()

    async def end(self) -> None:
        """Cancel it and wait until it has ended, or resists; on the loop."""
        self.cancel()
        if self.task is not None:
            await asyncio.wait([self.task], timeout=STOP_TIMEOUT_S)

    def cancel_soon(self) -> None:
        """Cancel it once it has begun; takes no lock and does not wait."""
        current = _current
        if current is not None and current.loop is self.loop:  # else its loop has ended it
            self.loop.call_soon_threadsafe(self.cancel)


class Scope:
    """Calls from any threads that are cancelled together: ``with scope.entered(): run(…)``.

    A call that ``cancel`` ends, or that comes after it, raises ``CancelledError`` of
    ``concurrent.futures``.
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self._calls: set[_Call[Any]] = set()

    @contextmanager
    def entered(self) -> Generator[None]:
        """Add the calls that this thread makes in the block to the scope."""
        token = _scope.set(self)
        try:
            yield
        finally:
            _scope.reset(token)

    def cancel(self) -> None:
        """Cancel the running calls, and all later ones.

        Takes no lock and does not wait, so a finaliser may call it.
        """
        self.is_cancelled = True
        for call in tuple(self._calls):
            call.cancel_soon()

    def hold(self, call: _Call[Any]) -> None:
        """Add a call that was handed over."""
        self._calls.add(call)
        if self.is_cancelled:  # meanwhile: `cancel` may not have seen it
            call.cancel_soon()

    def release(self, call: _Call[Any]) -> None:
        """Forget a call that has ended."""
        self._calls.discard(call)


class _Driven(threading.local):
    """Whether a thread is inside ``run_here``."""

    is_here = False


_driven = _Driven()
_scope: ContextVar[Scope | None] = ContextVar("tensorlake_storage_scope", default=None)
_lock = threading.Lock()
_current: LoopThread | None = None
_inherited: list[LoopThread | None] = []


def run(coroutine: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
    """Run a coroutine on the loop thread and wait for its result.

    Args:
        coroutine: The coroutine; closed, not run, when this call raises.
        timeout_s: Cancel after this long; None relies on the timeouts inside.

    Raises:
        StorageTimeoutError: It took longer than `timeout_s`.
        InvalidStateError: Called from the loop thread itself.
        CancelledError: The scope that the caller is in was cancelled, or `stop` was called.
    """
    current, scope = _loop_thread(), _scope.get()
    if threading.current_thread() is current.thread:
        coroutine.close()
        raise InvalidStateError(
            "run() was called on the storage loop, which would wait for itself;\n"
            "await the coroutine instead"
        )
    if scope is not None and scope.is_cancelled:
        coroutine.close()
        raise CancelledError
    call = _Call(coroutine, current.loop)
    try:
        current.loop.call_soon_threadsafe(call.start)
        if scope is not None:
            scope.hold(call)
        return call.answer.result(timeout_s)
    except TimeoutError:
        if call.answer.done():  # the coroutine's own error, not ours
            raise
        current.loop.call_soon_threadsafe(call.cancel)
        raise StorageTimeoutError(
            f"storage did not answer within {timeout_s} s;\ntry again, or allow more time",
            timeout_s=timeout_s,
        ) from None
    except BaseException:  # KeyboardInterrupt above all: leave nothing running behind the caller
        if not call.answer.done():
            ending = asyncio.run_coroutine_threadsafe(call.end(), current.loop)
            with suppress(TimeoutError):
                ending.result(2 * STOP_TIMEOUT_S)
        raise
    finally:
        if scope is not None:
            scope.release(call)
        del call  # an error's traceback holds this frame, and the answer holds the error


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the caller's own thread, and hand the rest of it to the loop.

    A hop to the loop and back takes longer than writing a small file, and every write that waits
    for the disk takes another. So where the store is a folder, a commit runs here.

    Functions called by such a coroutine may block where ``runs_here()``. Before it uses asyncio
    it awaits ``to_loop()``: from there on it runs as ``run`` would run it.

    Raises:
        InvalidStateError: Called from the loop thread itself.
        CancelledError: The scope that the caller is in was cancelled.
    """
    scope = _scope.get()
    if is_loop_thread() or (scope is not None and scope.is_cancelled):
        return run(coroutine)  # which raises
    was_here, _driven.is_here = _driven.is_here, True
    try:
        waits_for = coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        _driven.is_here = was_here
    assert waits_for is None, "to_loop() comes before anything of asyncio's"
    return run(coroutine)


def submit_here(begin: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
    """Start a coroutine as ``run_here`` does, in a thread for blocking I/O, and return at once.

    The coroutine is made there: an interrupt of this thread leaves none unawaited.
    """
    return _loop_thread().threads.submit(lambda: run_here(begin()))


def submit_work(work: Callable[[], T]) -> Future[T]:
    """Start a blocking function in one of the threads for blocking I/O, and return at once."""
    return _loop_thread().threads.submit(work)


def runs_here() -> bool:
    """Whether the caller runs within ``run_here`` and may block without stalling the loop."""
    return _driven.is_here


@types.coroutine
def to_loop() -> Generator[None, None, None]:
    """Continue on the storage loop; a no-op there."""
    if _driven.is_here:
        yield


def is_loop_thread() -> bool:
    """Whether this is the loop's own thread, which must never wait for its own coroutines."""
    return _current is not None and threading.current_thread() is _current.thread


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the loop thread and return a future of its result at once."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop_thread().loop)


async def gather_bounded(factories: Iterable[Callable[[], Awaitable[T]]], *, limit: int) -> list[T]:
    """Await each factory's awaitable, at most `limit` concurrently; results in the given order.

    The first error cancels the others and is raised once they have ended.
    """
    await to_loop()
    waiting = [*factories]
    if len(waiting) == 1:
        return [await waiting[0]()]  # no task is needed
    pending = enumerate(waiting)
    results: dict[int, T] = {}

    async def work() -> None:
        for position, factory in pending:
            results[position] = await factory()

    workers = [asyncio.ensure_future(work()) for _ in range(min(limit, len(waiting)))]
    try:
        await asyncio.gather(*workers)
    finally:
        await _ended(workers)
        workers.clear()  # the first error's traceback holds this frame, and its worker the error
    return [results[position] for position in range(len(waiting))]


async def _ended(workers: Sequence[asyncio.Future[None]]) -> None:
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


def stop() -> None:
    """End the loop thread, cancelling what runs on it; a later `run` starts another."""
    global _current
    with _lock:
        current, _current = _current, None
    if current is not None:
        current.stop()


def _loop_thread() -> LoopThread:
    global _current  # noqa: PLW0603 - the one loop of the process is the point of this module
    current = _current
    if current is None:
        with _lock:
            current = _current = _current or LoopThread()
    return current


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=STOP_TIMEOUT_S / 2)


def _forget_parent() -> None:
    """Reset a forked child: the parent's thread does not exist, and its lock may stay held.

    The parent's loop is kept, unused: finalising it would change the epoll set that both share.
    """
    global _current, _lock
    _inherited.append(_current)
    _current, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
