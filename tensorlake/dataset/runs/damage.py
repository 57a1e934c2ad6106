"""Damage in the records of runs, for ``check``: each object is read and parsed."""

from __future__ import annotations

from tensorlake.dataset.runs.record import Record, list_runs
from tensorlake.dataset.runs.tables import parsed_part
from tensorlake.dataset.transform.splice import ids_from_arrow
from tensorlake.errors import CorruptionError
from tensorlake.format import RUNS
from tensorlake.storage import Store, runtime
from tensorlake.versions import Finding

__all__ = ["damaged_runs"]


def damaged_runs(store: Store) -> list[Finding]:
    """Return a finding for each damaged object of a run."""
    return [finding for name in list_runs(store) for finding in _damaged(store, name)]


def _damaged(store: Store, name: str) -> list[Finding]:
    found: list[Finding] = []
    try:
        record = Record.read(store, name)
    except CorruptionError as error:
        return [_finding_of(error, f"{RUNS}{name}/run.json")]
    if record is None:
        return [_finding(f"{RUNS}{name}/", f"the run {name!r} lacks run.json")]
    try:
        record.segments()
    except CorruptionError as error:
        found.append(_finding_of(error, f"{RUNS}{name}/"))
    parts = [part for part in record.parts() if part.kind != "segment"]
    for part, data in record.read_parts(parts):
        try:
            parsed_part(part.path, data)
        except CorruptionError as error:
            found.append(_finding_of(error, part.path))
    for path in record.skipped():
        try:
            ids_from_arrow(runtime.run(store.get(path)) or b"", path)
        except CorruptionError as error:
            found.append(_finding_of(error, path))
    return found


def _finding_of(error: CorruptionError, where: str) -> Finding:
    return _finding(str(error.facts.get("object", where)), str(error).partition("\n")[0])


def _finding(where: str, what: str) -> Finding:
    return Finding(where, None, what, "warning", "delete the run: ds.runs.delete(name)")
