"""What processes do beside one that optimizes; importable, for they are spawned."""

from __future__ import annotations

import tensorlake as tl

GROUP = 48
COMMITS = 10


def append_steadily(url: str) -> None:
    """Commit one row after another."""
    dataset = tl.open(url)
    for number in range(COMMITS):
        dataset.append({"kind": 2, "number": number, "text": f"appended {number}"})
        dataset.commit(f"append {number}")


def update_steadily(url: str) -> None:
    """Give one row after another a new value."""
    for number in range(COMMITS):
        dataset = tl.open(url)
        row = (dataset["kind"] == 0) & (dataset["number"] == number)
        dataset["text"][row] = f"updated {number}"
        dataset.commit(f"update {number}")


def delete_steadily(url: str) -> None:
    """Delete one row after another."""
    for number in range(COMMITS):
        dataset = tl.open(url)
        dataset.delete((dataset["kind"] == 1) & (dataset["number"] == number))
        dataset.commit(f"delete {number}")


def optimize_and_collect(url: str, options: dict[str, str]) -> None:
    """Rewrite small chunks and collect what nobody needs, again and again."""
    for _ in range(COMMITS):
        dataset = tl.open(url, storage_options=options)
        dataset.optimize()
        dataset.gc()
