"""The README's table: how many times as fast as others, of what docs/benchmarks.md holds.

    python -m benchmarks.comparison      # writes the table between its two marks in README.md

Nothing is measured here, and nothing is chosen by hand but which benchmarks have a row. A ratio is
the one that the page lists, taken within a round; where it lists none, the quotient of the two
medians, turned so that more is faster. A benchmark that the page does not have has no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.data import REPOSITORY

__all__ = ["PAGE", "README", "comparison", "with_comparison", "write_comparison"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- made by: python -m benchmarks.comparison -->\n", "<!-- end -->\n"

CONTENDER = ("contender", "figure", "also")
PEERS = ("torch", "MDS", "LitData", "WebDataset", "Lance", "Deep Lake", "Grain")
TWO_DIGITS = 10
"""From here on a ratio is printed without tenths: they differ from round to round."""
MANY = 100_000
LESS_IS_FASTER = frozenset({"ms"})
OURS = "tensorlake"
NO_SYNC = "tensorlake, no fsync"


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of the table: a benchmark, our contender, and the names of the others in it.

    Attributes:
        job: The task, as the README names it.
        benchmark: A section of the page.
        ours: Our contender.
        part: "reading" for the second figure of a benchmark that writes and reads.
        named: Contenders by peer, where the page names them otherwise.
        others: Contenders beside the peers, by what they are called in the last column.
    """

    job: str
    benchmark: str
    ours: str = OURS
    part: str = ""
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    others: Mapping[str, str] = field(default_factory=dict[str, str])


NPY = {".npy": "one .npy file, no fsync", "Zarr": "Zarr"}
COMPARED = (
    Compared("epoch of JPEGs, local disk", "loader-jpeg", named={"torch": "torch, 2 workers"}),
    Compared("first epoch of JPEGs, S3", "loader-jpeg-20ms", named={"torch": "torch, 32 workers"}),
    Compared("first epoch of token rows, S3", "loader-tokens-20ms"),
    Compared(
        "epoch of token rows, local disk",
        "epoch-tokens",
        named={"torch": "torch, per sample"},
        others={"batched sampler over a memory map": "memory map, batched sampler"},
    ),
    Compared("JPEG ingestion", "ingest-jpeg", NO_SYNC),
    Compared("token row ingestion", "ingest-tokens", NO_SYNC, others={"Zarr": "Zarr"}),
    Compared("256 MiB of floats, write", "array-raw", NO_SYNC, others=NPY),
    Compared("the same, read back", "array-raw", NO_SYNC, part="reading", others=NPY),
    Compared("1,000 random rows, local disk", "scattered-rows-local", others={"Zarr": "Zarr"}),
    Compared("commit of one row, local disk", "commit-local", NO_SYNC),
    Compared("the same, S3", "commit-20ms"),
    Compared("reopening, local disk", "open-local", others={"Zarr": "Zarr"}),
    Compared("reopening, S3", "open-20ms", others={"Zarr": "Zarr"}),
    Compared("rows of one class among 10⁷", "query-label", others={"DuckDB": "DuckDB"}),
    Compared(
        "the same, one of 1,000 classes by a bitmap",
        "search-where-label",
        others={"DuckDB": "DuckDB"},
    ),
    Compared("rows in a range among 200,000", "query-range", others={"DuckDB": "DuckDB"}),
    Compared("10 nearest among 200,000 vectors", "query-nearest", others={"DuckDB": "DuckDB"}),
    Compared(
        "10 nearest among 10⁶ vectors, by an index, recall ≥ 0.95",
        "search-vectors-one",
        others={"faiss in memory": "faiss IVFFlat"},
    ),
    Compared(
        "10 best among 10⁶ texts, by words",
        "search-texts",
        others={"tantivy": "tantivy", "bm25s": "bm25s"},
    ),
)


@dataclass(frozen=True, slots=True)
class Section:
    """The page's section on one benchmark: medians and ratios as printed there."""

    unit: str
    medians: Mapping[str, str]
    also: Mapping[str, str]
    ratios: Mapping[str, float]

    @classmethod
    def of(cls, text: str) -> Section:
        """Read a section's tables."""
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if line.startswith("| ") and not line.startswith("| ---")
        ]
        (unit,) = (row[1] for row in rows if row[0] == "contender")
        contenders = [row for row in rows if len(row) == len(CONTENDER) and row[0] != "contender"]
        return cls(
            unit=unit,
            medians={name: figure.split(" ")[0] for name, figure, _ in contenders},
            also={name: also for name, _, also in contenders},
            ratios={row[0]: _number(row[1]) for row in rows if " ÷ " in row[0]},
        )

    def times(self, row: Compared, contender: str) -> float | None:
        """Return our speedup over a contender; None where the page has no such contender."""
        suffix = f", {row.part}" if row.part else ""
        listed = self.ratios.get(f"{row.ours} ÷ {contender}{suffix}")
        if listed is not None or row.part or not self.medians.get(contender):
            return listed
        ours, theirs = _number(self.medians[row.ours]), _number(self.medians[contender])
        return theirs / ours if self.unit in LESS_IS_FASTER else ours / theirs

    def figure(self, row: Compared) -> str:
        """Return our own figure with its unit."""
        if row.part:
            (found,) = re.findall(r"read MB/s ([\d,.]+)", self.also[row.ours])
            return f"{found} MB/s"
        unit = "queries/s" if self.unit == "queries" else self.unit
        return f"{_rounded(self.medians[row.ours])} {unit}"


def comparison(page: str) -> str:
    """Make the table of a page of figures."""
    _, *texts = page.split("\n## ")
    compared = (text for text in texts if "\n| contender |" in text)  # others have figures alone
    sections = {text.split("\n", 1)[0]: Section.of(text) for text in compared}
    head = ["", OURS, *PEERS, "others"]
    lines = [head, ["---"] * len(head)]
    lines += [_row(row, sections[row.benchmark]) for row in COMPARED if row.benchmark in sections]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_comparison(readme: str, page: str) -> str:
    """Put the table of a page between the two marks of a README."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{comparison(page)}{END}{after}"


def write_comparison() -> Path:
    """Write the README's table anew."""
    README.write_text(
        with_comparison(README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")),
        encoding="utf-8",
    )
    return README


def _row(row: Compared, section: Section) -> list[str]:
    by_peer = [section.times(row, row.named.get(peer, peer)) for peer in PEERS]
    return [
        f"[{row.job}](docs/benchmarks.md#{row.benchmark})",
        section.figure(row),
        *("" if times is None else _shown(times) for times in by_peer),
        ", ".join(_others(row, section)),
    ]


def _others(row: Compared, section: Section) -> Iterator[str]:
    for name, contender in row.others.items():
        times = section.times(row, contender)
        if times is not None:
            yield f"{name} {_shown(times)}"


def _shown(times: float) -> str:
    if times < 1:
        return f"**{times:.2f}**"
    return f"{times:.1f}" if times < TWO_DIGITS else f"{times:.0f}"


def _rounded(figure: str) -> str:
    number = _number(figure)
    if number < MANY:
        return figure
    return f"{number / 1e6:.3g} M" if number >= 1e6 else f"{number / 1e3:.3g} k"


def _number(text: str) -> float:
    return float(text.split(" ", maxsplit=1)[0].replace(",", ""))


if __name__ == "__main__":
    print(write_comparison())
