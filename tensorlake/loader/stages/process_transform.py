"""``engine="processes"``: a transform that holds the interpreter's lock runs in worker processes.

A worker gets the transform by pickle. A part that cannot be pickled is refused when the loader is
made, with the path to it: ``transform.func.file (TextIOWrapper)``.
"""

from __future__ import annotations

import ast
import pickle
import pickletools
import sys
from itertools import pairwise
from pathlib import Path
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
    pickled = pickle.dumps(transform)
    if not needs_main(pickled):
        return
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        raise InvalidInputError(
            "engine='processes': transform= is defined in an interactive session, which worker"
            " processes cannot import\nwrite it into a module and import it, or use"
            " engine='threads'",
            argument="transform",
        )
    for name in names_of_main(pickled) & guarded_names(Path(path)):
        raise InvalidInputError(
            f"engine='processes': transform= needs {name!r}, which is defined under if __name__ =="
            " '__main__': and so not in worker processes\ndefine it above that line",
            argument="transform",
            actual=name,
        )


def names_of_main(pickled: bytes) -> set[str]:
    """Return the names that a pickle takes from the main module."""
    texts = [value for _, value, _ in pickletools.genops(pickled) if isinstance(value, str)]
    named = (name for module, name in pairwise(texts) if module == "__main__")
    return {name.partition(".")[0] for name in named}


def guarded_names(path: Path) -> set[str]:
    """Return the names that a program defines under ``if __name__ == "__main__":`` alone."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # not a file of Python: workers report what fails
        return set()
    guards = [one for one in body if isinstance(one, ast.If) and _is_guard(one.test)]
    outside = _defined([one for one in body if one not in guards])
    return _defined([one for guard in guards for one in guard.body]) - outside


def _is_guard(test: ast.expr) -> bool:
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _defined(body: list[ast.stmt]) -> set[str]:
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for one in body for node in ast.walk(one) if isinstance(node, named)}


def processes_of(call: TransformCall, count: int) -> WorkerProcesses:
    """Prepare the processes of a pass."""
    check_transform(call.function)  # it may have changed since the loader was made
    return WorkerProcesses(count, pickle.dumps(call.in_process()), what="transform=")
