"""``engine="processes"``: a transform that holds the interpreter's lock runs in worker processes.

A worker gets the transform by pickle. A part that cannot be pickled is refused when the loader is
made, with the path to it: ``transform.func.file (TextIOWrapper)``.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.loader.runtime.shared_slabs import has_shared_memory
from tensorlake.loader.runtime.unsendable import unsendable
from tensorlake.loader.runtime.worker_processes import WorkerProcesses, needs_main

if TYPE_CHECKING:
    from tensorlake.loader.stages.transform import TransformCall

__all__ = ["check_transform", "processes_of"]


def check_transform(transform: Any) -> None:
    """Refuse a transform that cannot run in other processes.

    Raises:
        InvalidInputError: It cannot be pickled, or other processes could not import it.
        UnsupportedFeatureError: This system does not share memory by descriptor.
    """
    if transform is None:
        return
    if not has_shared_memory():
        raise UnsupportedFeatureError(
            f"engine='processes' needs Linux, and this is {sys.platform}\nuse engine='threads'",
            argument="engine",
            actual=sys.platform,
        )
    error = unsendable(transform)
    if error is not None:
        path = "transform" + "".join(error.path)
        raise InvalidInputError(
            f"engine='processes': {path} ({error.kind}) cannot be sent to worker processes:"
            f" {error.reason}\ndefine functions at the top level of a module, keep open files and"
            " locks out of transform=, or use engine='threads'",
            argument="transform",
            actual=path,
        )
    if needs_main(pickle.dumps(transform)) and not hasattr(sys.modules["__main__"], "__file__"):
        raise InvalidInputError(
            "engine='processes': transform= is defined in an interactive session, which worker"
            " processes cannot import\nwrite it into a module and import it, or use"
            " engine='threads'",
            argument="transform",
        )


def processes_of(call: TransformCall, count: int) -> WorkerProcesses:
    """Prepare the processes of a pass."""
    check_transform(call.function)  # it may have changed since the loader was made
    return WorkerProcesses(count, pickle.dumps(call.in_process()), what="transform=")
