"""``python -m benchmarks [NAME …]``: run benchmarks, print ratios, keep JSON, write the page.

With ``--one BENCHMARK CONTENDER`` it is one run of one contender: what the harness starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import (
    against,
    arrays,
    bottlenecks,
    clusters,
    copies,
    corrections,
    diagnose,
    episodes,
    first_batch,
    formats,
    index_size,
    ingest,
    loader,
    loading,
    media,
    media_video,
    media_volumes,
    packing,
    placement,
    query,
    query_cancel,
    query_curator,
    query_engine,
    query_reads,
    read_ahead,
    regions,
    remote,
    remote_edges,
    requests,
    runs,
    scale,
    search,
    search_cold,
    search_where,
    server,
    shared_stream,
    storage,
    storage_remote,
    structures,
    writers,
)
from benchmarks.harness.data import REPOSITORY, Workspace, find_images
from benchmarks.harness.report import describe_machine, print_result, write_json, write_page
from benchmarks.harness.runs import Benchmark, print_measurement, run_rounds

ALL: tuple[Benchmark, ...] = (
    *ingest.BENCHMARKS,
    *arrays.BENCHMARKS,
    *loading.BENCHMARKS,
    *loader.BENCHMARKS,
    *media.BENCHMARKS,
    *media_video.BENCHMARKS,
    *media_volumes.BENCHMARKS,
    *packing.BENCHMARKS,
    *placement.BENCHMARKS,
    *copies.BENCHMARKS,
    *bottlenecks.BENCHMARKS,
    *diagnose.BENCHMARKS,
    *episodes.BENCHMARKS,
    *against.BENCHMARKS,
    *remote.BENCHMARKS,
    *remote_edges.BENCHMARKS,
    *read_ahead.BENCHMARKS,
    *first_batch.BENCHMARKS,
    *formats.BENCHMARKS,
    *regions.BENCHMARKS,
    *requests.BENCHMARKS,
    *runs.BENCHMARKS,
    *storage.BENCHMARKS,
    *storage_remote.BENCHMARKS,
    *structures.BENCHMARKS,
    *writers.BENCHMARKS,
    *clusters.BENCHMARKS,
    *query.BENCHMARKS,
    *query_cancel.BENCHMARKS,
    *query_curator.BENCHMARKS,
    *query_engine.BENCHMARKS,
    *query_reads.BENCHMARKS,
    *scale.BENCHMARKS,
    *corrections.BENCHMARKS,
    *search.BENCHMARKS,
    *search_cold.BENCHMARKS,
    *search_where.BENCHMARKS,
    *index_size.BENCHMARKS,
    *server.BENCHMARKS,
    *shared_stream.BENCHMARKS,
)
MIN_ROUNDS = 3


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help=f"some of these, or the first word of several: {', '.join(b.name for b in ALL)}",
    )
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument(
        "--images", help="a folder of JPEG files (default: see benchmarks/harness/data.py)"
    )
    parser.add_argument("--quick", action="store_true", help="little data: does it run at all?")
    parser.add_argument(
        "--write",
        action="store_true",
        help="also write docs/benchmarks.md and the README's table: these figures, and those kept",
    )
    parser.add_argument("--workspace", type=Path, default=REPOSITORY / ".benchmarks")
    parser.add_argument("--one", nargs=2, metavar=("BENCHMARK", "CONTENDER"), help="one run")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    known = {benchmark.name: benchmark for benchmark in ALL}
    kind = "quick" if arguments.quick else "full"
    folder = arguments.workspace if arguments.one else arguments.workspace.resolve() / kind
    folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(folder, find_images(arguments.images), is_quick=arguments.quick)
    if arguments.one:
        benchmark, contender = arguments.one
        (chosen,) = [c for c in known[benchmark].contenders if c.name == contender]
        print_measurement(chosen.run(workspace))
        return
    chosen = [name for asked in arguments.names for name in _called(asked, known)]
    selected = [known[name] for name in dict.fromkeys(chosen or known)]
    for key, value in describe_machine().items():
        print(f"{key:10} {value}")
    source = workspace.images or "generated"
    print(f"{'images':10} {workspace.num_images} ({source}), {arguments.rounds} rounds")
    results = {}
    for benchmark in selected:
        runs = run_rounds(benchmark, workspace, rounds=arguments.rounds)
        print_result(benchmark, runs)
        results[benchmark.name] = runs
    print(f"\nevery run is in {write_json(results, workspace)}")
    if arguments.write:
        print(f"the figures are in {write_page(ALL, workspace)}")


def _called(asked: str, known: Mapping[str, Benchmark]) -> list[str]:
    """A benchmark by its name, else all whose names begin with a word: ``ingest``."""
    if asked in known:
        return [asked]
    found = [name for name in known if name.startswith(f"{asked}-")]
    if not found:
        sys.exit(f"benchmarks: no benchmark {asked}; known: {', '.join(known)}")
    return found


if __name__ == "__main__":
    main()
