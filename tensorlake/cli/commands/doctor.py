"""``tensorlake doctor [URL]``: list installed packages, and test whether a store is suitable.

    ok       tensorlake     0.1.0, Python 3.11.9, Linux x86_64
    absent   extra 'zarr'   pip install 'tensorlake-dl[zarr]'
    ok       latency        21.3 ms per request, median of 5
    failed   put-if-absent  'https://…' cannot hold a dataset that is written to: …

Each line is a `Finding`; a failed test does not stop the others. A report for an issue
(``--report``) contains no secrets: URLs are shown without credentials, and options are omitted.
"""

import asyncio
import importlib.util
import os
import platform
import secrets
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from tensorlake.cli.exits import FAILED
from tensorlake.cli.options import AsJson
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms
from tensorlake.errors import (
    AccessError,
    MissingExtraError,
    TensorlakeError,
    UnsupportedFeatureError,
    UnsupportedStoreError,
)
from tensorlake.storage import Store, open_store, probe, run

__all__ = ["doctor"]

CORE = (  # noqa: SIM905 a list literal would take one line per word
    "numpy ml_dtypes obstore numcodecs simplejpeg xxhash msgspec lark pyarrow typer rich"
).split()
EXTRAS = {
    "server": ("fastapi", "uvicorn", "prometheus_client"),
    "http": ("aiohttp",),
    "torch": ("torch",),
    "jax": ("jax",),
    "tensorflow": ("tensorflow",),
    "pandas": ("pandas",),
    "duckdb": ("duckdb",),
    "media": ("PIL", "imagecodecs"),
    "video": ("av",),
    "audio": ("soundfile",),
    "medical": ("nibabel", "pydicom"),
    "points": ("laspy", "trimesh"),
    "text": ("snowballstemmer",),
    "notebook": ("anywidget",),
    "tfrecord": ("google_crc32c",),
    "zarr": ("zarr",),
    "hdf5": ("h5py",),
    "mcp": ("mcp",),
    "ray": ("ray",),
    "graphs": ("pymetis", "torch_geometric"),
    "flows": ("dbos",),
    "flwr": ("flwr",),
    "lance": ("lance",),
    "onnx": ("onnxruntime", "onnx"),
    "hf": ("datasets",),
    "tensorboard": ("tensorboard",),
    "metrics": ("prometheus_client", "opentelemetry"),
    "otel": ("opentelemetry",),
    "s3fs": ("s3fs",),
}
DISTRIBUTIONS = {
    "lance": "pylance",
    "PIL": "pillow",
    "google_crc32c": "google-crc32c",
    "opentelemetry": "opentelemetry-api",
    "torch_geometric": "torch-geometric",
}
"""Distribution names of modules whose name differs."""
PROBES = 5
PROBE_NBYTES = 8 << 20
MAX_SKEW_S = 60
"""Grace periods are minutes at least; a larger skew makes ages in messages misleading."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one test."""

    state: Literal["ok", "absent", "warning", "failed"]
    what: str
    detail: str


def doctor(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="Store to test: a lake or a dataset.")
    ] = None,
    *,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Write small test objects, and remove them.")
    ] = True,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the report to a file, to attach to an issue."
        ),
    ] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List installed packages, and test a store: latency, speed, put-if-absent, clock.

    Example: tensorlake doctor pets.tl --report report.txt
    """
    found = list(_check_installation())
    if url is not None:
        options = terms.options_for(url)
        try:
            store = open_store(url, storage_options=options)
            if store.is_local and not Path(store.url).is_dir():
                detail = f"there is no folder {store.url!r}; make it first, or check its name"
                found.append(Finding("failed", "store", detail))
            else:
                found += run(_check_store(store, write=write))
        except TensorlakeError as error:
            found.append(Finding("failed", "store", str(error)))
    lines = [(one.state, one.what, " ".join(one.detail.split())) for one in found]
    if report is not None:
        with report.open("w", encoding="utf-8") as file:
            print_table(lines, file=file)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        print_table(lines)
    if any(one.state == "failed" for one in found):
        raise typer.Exit(FAILED)


def _check_installation() -> Iterator[Finding]:
    version = metadata.version("tensorlake-dl")
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    yield Finding("ok", "tensorlake", f"{version}, Python {platform.python_version()}, {system}")
    for name in CORE:
        if importlib.util.find_spec(name) is not None:
            yield Finding("ok", name, metadata.version(name))
    for extra, modules in EXTRAS.items():
        absent = [name for name in modules if importlib.util.find_spec(name) is None]
        if absent:
            needed = f"{', '.join(absent)}: pip install 'tensorlake-dl[{extra}]'"
            yield Finding("absent", f"extra {extra!r}", needed)
        else:
            yield Finding("ok", f"extra {extra!r}", ", ".join(map(_version_of, modules)))
    from tensorlake.dataset import check_viewer_is_built  # lazy: --help does not need it

    try:
        check_viewer_is_built()
        yield Finding("ok", "viewer", "built")
    except (MissingExtraError, UnsupportedFeatureError) as error:
        yield Finding("absent", "viewer", str(error).splitlines()[-1])


def _version_of(module: str) -> str:
    name = DISTRIBUTIONS.get(module, module)
    return f"{name} {metadata.version(name)}"


async def _check_store(store: Store, *, write: bool) -> list[Finding]:
    found = [Finding("ok", "store", f"{store.url}{', local' if store.is_local else ''}")]
    found.append(await _latency(store))
    if not write:
        return found
    path = f"probe-{secrets.token_hex(8)}"
    try:
        await probe(store)
        found.append(
            Finding(
                "ok",
                "put-if-absent",
                "exactly one of several concurrent writers of a name succeeds",
            )
        )
        found += await _write_and_read(store, path)
    except UnsupportedStoreError as error:
        found.append(Finding("failed", "put-if-absent", str(error)))
    except AccessError as error:
        found.append(Finding("warning", "writing", str(error)))
    return found


async def _latency(store: Store) -> Finding:
    seconds: list[float] = []
    for _ in range(PROBES):
        started = time.perf_counter()
        await store.head(f"probe-{secrets.token_hex(8)}")
        seconds.append(time.perf_counter() - started)
    median_ms = 1000 * statistics.median(seconds)
    return Finding("ok", "latency", f"{median_ms:.1f} ms per request, median of {PROBES}")


async def _write_and_read(store: Store, path: str) -> list[Finding]:
    content = secrets.token_bytes(PROBE_NBYTES)
    try:
        started = time.perf_counter()
        await store.put_if_absent(path, content)
        wrote_s = time.perf_counter() - started
        meta, here = await store.head(path), datetime.now(UTC)
        started = time.perf_counter()
        parts = [(at, at + PROBE_NBYTES // 4) for at in range(0, PROBE_NBYTES, PROBE_NBYTES // 4)]
        await asyncio.gather(*(store.get_range(path, start, stop) for start, stop in parts))
        read_s = time.perf_counter() - started
    finally:
        await store.delete(path)
    megabytes = PROBE_NBYTES / 1e6
    speed = f"{megabytes / wrote_s:,.0f} MB/s written, {megabytes / read_s:,.0f} MB/s read"
    found = [Finding("ok", "speed", f"{speed}, 8 MiB in 1 and 4 requests")]
    if meta is not None:
        skew_s = (here - meta.modified).total_seconds()
        state = "ok" if abs(skew_s) < MAX_SKEW_S else "warning"
        advice = "" if state == "ok" else "; set this machine's clock (NTP)"
        found.append(Finding(state, "clock", f"{skew_s:+.0f} s from the store's{advice}"))
    return found
