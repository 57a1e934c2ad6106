"""What a user without rights may do: who runs the tests may be root, who may do everything."""

import os
import warnings
from collections.abc import Callable

NOBODY = 65534


def as_nobody(act: Callable[[], object]) -> str:
    """Run something in a child without rights; what it raised, as "Class: message"."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's and JAX's, of forks: the child runs only this
        child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act()
            os.write(writing, b"nothing")
        except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said
