"""Object storage: stores with one small protocol, and the bridge to asynchronous I/O."""

from tensorlake.storage.api.clock import FIRST_STORED, StoreClock
from tensorlake.storage.api.coalesce import MergedRange, calls_of, merge_ranges, scatter
from tensorlake.storage.api.probe import probe
from tensorlake.storage.api.store import (
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
from tensorlake.storage.api.urls import (
    check_parts,
    join_url,
    place_text,
    public_url,
    refuse_query,
    split_url,
)
from tensorlake.storage.concurrency import runtime
from tensorlake.storage.concurrency.fork_lock import ForkLock
from tensorlake.storage.concurrency.lru_cache import LruCache
from tensorlake.storage.concurrency.parallel_map import parallel_map, usable_cores
from tensorlake.storage.concurrency.read_counter import Tally, counted, is_counted, note_read
from tensorlake.storage.concurrency.request_limit import Flight
from tensorlake.storage.concurrency.retry import RetryPolicy, Surroundings, retry
from tensorlake.storage.concurrency.runtime import gather_bounded, run
from tensorlake.storage.concurrency.single_flight import SingleFlight
from tensorlake.storage.concurrency.tracing import Traced, span
from tensorlake.storage.files.mappings import Mappings
from tensorlake.storage.files.rename import exchange_names
from tensorlake.storage.files.temp_files import ScratchFile
from tensorlake.storage.http.errors import error_of_problem
from tensorlake.storage.http.names import name_of_part, part_of_name
from tensorlake.storage.http.stream import AnswerStream, LostStreamError
from tensorlake.storage.stores.fsspec import FsspecStore
from tensorlake.storage.stores.links import (
    LinkStore,
    LinkTarget,
    reading_bases,
    set_link_credentials,
)
from tensorlake.storage.stores.local import Durability, LocalStore
from tensorlake.storage.stores.memory import MemoryStore
from tensorlake.storage.stores.object_store import MAX_PUT_NBYTES, ObjectStore
from tensorlake.storage.stores.open import open_store
from tensorlake.storage.stores.server import LakeStore, is_lake_url

__all__ = [
    "FIRST_STORED",
    "MAX_PUT_NBYTES",
    "AnswerStream",
    "Buffer",
    "Data",
    "Durability",
    "Flight",
    "ForkLock",
    "FsspecStore",
    "LakeStore",
    "LinkStore",
    "LinkTarget",
    "LocalStore",
    "LostStreamError",
    "LruCache",
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
    "Traced",
    "UnknownOutcomeError",
    "calls_of",
    "check_parts",
    "check_path",
    "counted",
    "error_of_problem",
    "exchange_names",
    "gather_bounded",
    "is_counted",
    "is_lake_url",
    "join_url",
    "merge_ranges",
    "name_of_part",
    "nbytes_of",
    "note_read",
    "open_store",
    "parallel_map",
    "part_of_name",
    "pieces_of",
    "place_text",
    "probe",
    "public_url",
    "reading_bases",
    "refuse_query",
    "retry",
    "run",
    "runtime",
    "scatter",
    "set_link_credentials",
    "span",
    "split_url",
    "usable_cores",
]
