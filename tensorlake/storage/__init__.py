"""Where bytes are kept: stores of one small protocol, and the bridge to asynchronous I/O."""

from tensorlake.storage.answer_stream import AnswerStream, LostStreamError
from tensorlake.storage.clock import FIRST_STORED, StoreClock, WrongClockWarning
from tensorlake.storage.coalesce import MergedRange, merge_ranges, scatter
from tensorlake.storage.flight import Flight
from tensorlake.storage.fork_lock import ForkLock
from tensorlake.storage.fsspec_store import FsspecStore
from tensorlake.storage.lake_store import LakeStore, is_lake_url
from tensorlake.storage.local import Durability, LocalStore
from tensorlake.storage.mappings import Mappings
from tensorlake.storage.memory import MemoryStore
from tensorlake.storage.object_store import ObjectStore
from tensorlake.storage.open import open_store
from tensorlake.storage.path_names import name_of_part, part_of_name
from tensorlake.storage.probe import probe
from tensorlake.storage.problems import error_of_problem
from tensorlake.storage.retry import RetryPolicy, Surroundings, retry
from tensorlake.storage.runtime import gather_bounded, run
from tensorlake.storage.scratch import ScratchFile
from tensorlake.storage.side_by_side import side_by_side, usable_cores
from tensorlake.storage.single_flight import SingleFlight
from tensorlake.storage.store import (
    Buffer,
    Data,
    MissingObjectError,
    ObjectExistsError,
    ObjectMeta,
    Store,
    StoredObject,
    UnknownOutcomeError,
    check_path,
    nbytes_of,
    pieces_of,
)
from tensorlake.storage.tally import Tally, counted, is_counted, note_read
from tensorlake.storage.urls import join_url, public_url, split_url

__all__ = [
    "FIRST_STORED",
    "AnswerStream",
    "Buffer",
    "Data",
    "Durability",
    "Flight",
    "ForkLock",
    "FsspecStore",
    "LakeStore",
    "LocalStore",
    "LostStreamError",
    "Mappings",
    "MemoryStore",
    "MergedRange",
    "MissingObjectError",
    "ObjectExistsError",
    "ObjectMeta",
    "ObjectStore",
    "RetryPolicy",
    "ScratchFile",
    "SingleFlight",
    "Store",
    "StoreClock",
    "StoredObject",
    "Surroundings",
    "Tally",
    "UnknownOutcomeError",
    "WrongClockWarning",
    "check_path",
    "counted",
    "error_of_problem",
    "gather_bounded",
    "is_counted",
    "is_lake_url",
    "join_url",
    "merge_ranges",
    "name_of_part",
    "nbytes_of",
    "note_read",
    "open_store",
    "part_of_name",
    "pieces_of",
    "probe",
    "public_url",
    "retry",
    "run",
    "scatter",
    "side_by_side",
    "split_url",
    "usable_cores",
]
