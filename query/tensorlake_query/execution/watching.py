"""Work on all rows at once, which can be left while it is under way.

A sort of 10⁷ rows is one call of NumPy that nothing interrupts. It runs in a thread of its own;
the calling thread waits, looks at the deadline, and receives Ctrl-C. Where the run ends, it ends
there and then; the thread's result is dropped, and it stops at its next charge of memory, or at the
end of the call that it is in.
"""

from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread
from typing import TypeVar

from tensorlake_query.values.memory import Account

Made = TypeVar("Made")

WATCHED_ROWS = 50_000  # of fewer, work is over in some 10 ms
POLL_S = 0.02


def watched(work: Callable[[], Made], check: Callable[[], None], account: Account) -> Made:
    """Return the result of work, or raise what `check` raises while it is under way.

    Args:
        work: reads nothing from a source, and calls no function of the user.
        check: called from time to time.
        account: closed when the work is left.
    """
    made: list[Made] = []
    failed: list[BaseException] = []
    is_over = Event()

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)
        finally:
            is_over.set()

    context = copy_context()
    Thread(target=context.run, args=(run,), name="tensorlake-query-step", daemon=True).start()
    try:
        while not is_over.wait(POLL_S):
            check()
    except BaseException:
        account.close()
        raise
    if failed:
        raise failed.pop()
    return made.pop()
