"""Batches in memory that processes of one host share: written once, sealed, sent by descriptor.

    server    batch ── written ── sealed: its bytes and its size stay
                │ descriptor, over a socket of the client's stream
    client      └── mapped, copy on write ──► arrays of the batch, without a copy

The memory of a batch is never used again for another: it is freed once the server has dropped the
batch and each client its arrays, however they end. A client acknowledges each batch by one byte.
The socket has a name in the abstract namespace of the host's network, which no file system shows,
and a key that the stream's answer carries.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import socket
import sys
from contextlib import suppress
from typing import Final, Self
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.runtime.shared_slabs import has_shared_memory

if sys.platform != "win32":
    import fcntl

__all__ = ["ACKNOWLEDGED", "SLABS_HEADER", "Slab", "SlabReader", "slab_address"]

SLABS_HEADER: Final = "Tensorlake-Slabs"
"""A request has "accept" here; its answer a socket's name, and the key to send there first."""

ACKNOWLEDGED: Final = b"\x01"
WAIT_S: Final = 10.0  # for what has been sent already
OFFER = re.compile(r"([0-9a-f]{32}) ([0-9a-f]{32})")
MAPPED_MOST: Final = 128  # a map holds a descriptor, as long as an array of its batch is referenced
_mapped: WeakSet[mmap.mmap] = WeakSet()
NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def slab_address(name: str) -> str:
    """Return the address of a stream's socket, which is in no file system."""
    return f"\0tensorlake-slabs-{name}"


class Slab:
    """Sealed memory; its descriptor is open as long as this object is referenced."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.process = os.getpid()

    def __del__(self) -> None:
        if self.process == os.getpid():  # a fork's descriptor is its parent's
            os.close(self.descriptor)

    @classmethod
    def of(cls, *pieces: bytes | memoryview) -> Self | None:
        """Write pieces end to end; None where the process can have no more descriptors."""
        try:
            slab = cls(os.memfd_create("tensorlake-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            with open(slab.descriptor, "wb", buffering=0, closefd=False) as file:
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[file.write(view) :]
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                return None
            raise
        fcntl.fcntl(slab.descriptor, fcntl.F_ADD_SEALS, _seals())
        return slab

    def last(self, nbytes: int) -> bytes:
        """Return the last bytes; a map of them would hold a descriptor of its own."""
        return os.pread(self.descriptor, nbytes, os.fstat(self.descriptor).st_size - nbytes)


class SlabReader:
    """A client's end of a stream's socket; used by one thread, ended by any.

    Attributes:
        nbytes: Number of bytes of the batches received.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.nbytes = 0
        self._connection = connection

    @classmethod
    def offered(cls, offer: str | None) -> SlabReader | None:
        """Connect to the socket that an answer offers; None where it is of another host."""
        found = OFFER.fullmatch(offer or "") if has_shared_memory() else None
        if found is None:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(WAIT_S)
            connection.connect(slab_address(found[1]))
            connection.send(bytes.fromhex(found[2]))
        except OSError:  # no such socket here, or its stream has ended: batches come over HTTP
            connection.close()
            return None
        return cls(connection)

    def next(self) -> NDArray[np.uint8]:
        """Return the bytes of the next batch, in memory that is this process's own when written.

        Raises:
            OSError: The server has ended, or sent no sealed memory.
        """
        message, descriptors, _, _ = socket.recv_fds(self._connection, len(ACKNOWLEDGED), 1)
        if not message or not descriptors:
            raise OSError("the server's socket of batches was closed")
        (descriptor,) = descriptors
        try:
            if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() != _seals():
                raise OSError("the server's batch is not sealed")  # reading it could end us
            size = os.fstat(descriptor).st_size
            memory = mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE)
        finally:
            os.close(descriptor)
        with suppress(OSError):  # the server has ended after this batch
            self._connection.send(ACKNOWLEDGED)
        self.nbytes += size
        found = np.frombuffer(memory, np.uint8)
        if len(_mapped) >= MAPPED_MOST:
            return found.copy()
        _mapped.add(memory)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


def _seals() -> int:
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
