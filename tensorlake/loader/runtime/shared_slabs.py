"""Values between two processes, through memory shared by descriptor and never by name.

    sender     slab ── written in place ── sealed: no other size, no other writer
                 │ descriptor, sent once
    receiver     └── mapped to be read ──► a copy of what was sent

    message    16 bytes: which slab of the sender's, and the bytes of the value in it
    value      lengths · pickle · buffers of arrays, aligned to 64 bytes

A slab has no name in any file system, so nothing is left of it once both processes have ended,
however they end. A value that does not fit gets a new slab, and the receiver drops the old one.
One side asks and the other answers, in turns, so a slab is free when its sender writes again.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import sys
from typing import Any

import numpy as np

from tensorlake.loader.runtime.unsendable import unsendable

if sys.platform != "win32":
    import fcntl

__all__ = ["Channel", "has_shared_memory", "memory_file"]

MESSAGE = struct.Struct("<QQ")  # number of the slab, bytes of the value
LENGTH = struct.Struct("<Q")
ALIGNMENT = 64  # a cache line
MIN_NBYTES = 1 << 16
IN_PICKLE_NBYTES = 1 << 12  # smaller arrays cost less inside the pickle than beside it
# Linux 5.1; Python has no name for it. The sender's own mapping is made before, and stays writable.
F_SEAL_FUTURE_WRITE = 0x10


def has_shared_memory() -> bool:
    """Return whether this system shares memory by descriptor: Linux."""
    return hasattr(os, "memfd_create") and hasattr(socket, "send_fds")


def memory_file(content: bytes = b"") -> int:
    """Return the descriptor of a file in memory, at its beginning."""
    file = os.memfd_create("tensorlake-slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(file, "wb", closefd=False) as writing:
        writing.write(content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


class Channel:
    """One end of a connection on which both sides send values in turns; used by one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._number = 0  # of the slab that is written
        self._own: mmap.mmap | None = None
        self._other: tuple[int, mmap.mmap] | None = None  # the slab that is read
        self._read_nbytes = 0

    def send(self, value: Any) -> None:
        """Send a value.

        Raises:
            EOFError: The other side has ended.
            UnsendableError: The value cannot be pickled; nothing was sent.
        """
        buffers: list[memoryview] = []
        stream = io.BytesIO()
        try:
            _Pickler(stream, buffers).dump(value)
        except Exception as error:
            raise unsendable(value) or error from error
        pieces = [memoryview(stream.getvalue()), *buffers]
        offsets = [_aligned((1 + len(pieces)) * LENGTH.size)]
        for piece in pieces:
            offsets.append(_aligned(offsets[-1] + piece.nbytes))
        descriptors: list[int] = []
        try:
            slab = self._slab(offsets[-1], descriptors)
            lengths = [len(pieces), *(piece.nbytes for piece in pieces)]
            slab[: len(lengths) * LENGTH.size] = struct.pack(f"<{len(lengths)}Q", *lengths)
            memory = np.frombuffer(slab, dtype=np.uint8)
            for offset, piece in zip(offsets, pieces, strict=False):
                # NumPy's copy lets other threads run
                memory[offset : offset + piece.nbytes] = np.frombuffer(piece, dtype=np.uint8)
            message = MESSAGE.pack(self._number, offsets[-1])
            socket.send_fds(self._connection, [message], descriptors)
        except (BrokenPipeError, ConnectionError) as error:
            raise EOFError from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def receive(self) -> Any:
        """Wait for a value, and return a copy that depends on no other process.

        Raises:
            EOFError: The other side has ended.
        """
        try:
            message, descriptors, _, _ = socket.recv_fds(self._connection, MESSAGE.size, 1)
        except ConnectionError as error:
            raise EOFError from error
        if not message:
            raise EOFError
        number, self._read_nbytes = MESSAGE.unpack(message)
        if descriptors:
            (descriptor,) = descriptors
            try:
                size = os.fstat(descriptor).st_size
                self._other = number, mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor)
        assert self._other is not None, "the first message carries a slab"
        assert self._other[0] == number, "a message about a new slab carries it"
        return self.last()

    def last(self) -> Any:
        """Return another copy of the value that was received last."""
        assert self._other is not None, "after receive()"
        memory = np.frombuffer(self._other[1], dtype=np.uint8, count=self._read_nbytes)
        (count,) = LENGTH.unpack_from(memory.data)
        lengths = struct.unpack_from(f"<{count}Q", memory.data, LENGTH.size)
        offset = _aligned((1 + count) * LENGTH.size)
        parts: list[np.ndarray] = []
        for length in lengths:
            parts.append(memory[offset : offset + length])
            offset = _aligned(offset + length)
        stream, *buffers = parts
        return pickle.loads(stream.data, buffers=[buffer.copy() for buffer in buffers])  # noqa: S301 - of our own process

    def hang_up(self) -> None:
        """End both sides' waits; takes no lock and does not wait."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended, or is closed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._own = self._other = None

    def _slab(self, nbytes: int, descriptors: list[int]) -> mmap.mmap:
        """Return a slab of at least this size; a new one adds its descriptor, to be sent."""
        if self._own is not None and len(self._own) >= nbytes:
            return self._own
        size = max(MIN_NBYTES, 1 << (nbytes - 1).bit_length())
        file = memory_file()
        descriptors.append(file)
        os.ftruncate(file, size)
        self._own = mmap.mmap(file, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        try:
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE)
        except OSError:  # a kernel before 5.1
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        self._number += 1
        return self._own


class _Pickler(pickle.Pickler):
    """Pickles with the memory of large arrays beside the stream, torch's tensors like NumPy's."""

    def __init__(self, stream: io.BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=self._beside)
        self._buffers = buffers

    def _beside(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < IN_PICKLE_NBYTES:
            return True
        self._buffers.append(raw)
        return False

    def reducer_override(self, value: Any) -> Any:
        """Send a plain tensor as its array; torch's own pickling writes an archive."""
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor:
            return NotImplemented
        is_plain = value.device.type == "cpu" and value.layout == torch.strided
        if not is_plain or value.requires_grad or value.dtype == torch.bfloat16:
            return NotImplemented
        return _tensor_of, (value.numpy(),)


def _tensor_of(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
