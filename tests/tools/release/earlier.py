"""What this version writes is read by the last release, or refused by it with the feature's name.

here        datasets with and without what came after the release
release     reads each ─► the same values, or UnsupportedFeatureError
release     deletes a row of each and commits, or refuses
here        reads all of them again, and `check` finds nothing
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["RELEASE", "compared", "differences"]

RELEASE = "07946fb"
"""The last commit of 0.1.0."""
TIMEOUT_S = 600
REFUSED = "tensorlake.UnsupportedFeatureError: "
READ = Path(__file__).with_name("reading.py")
Read = Mapping[str, Any]

WRITE = """
import sys
from pathlib import Path
import numpy as np
import tensorlake as tl
from tests.golden import make_v1_computed, make_v1_constraints, make_v1_parts, make_v1_personal
from tests.golden.release_types import every_type

folder = Path(sys.argv[1])
every_type(str(folder / "types"))
make_v1_constraints.main(folder / "constraints")
make_v1_computed.main(folder / "computed")
make_v1_personal.main(folder / "personal")
make_v1_parts.main(folder / "parts")

random = np.random.default_rng(0)
rows = 3000
ds = tl.create(str(folder / "history"), {
    "id": "int64", "label": tl.ClassLabel(["cat", "dog"]), "text": "str", "v": tl.Embedding(8),
    "w": tl.Array("float32", (4,), updates="overlay"),
})
ds.extend({
    "id": range(rows), "label": random.integers(0, 2, rows),
    "text": [f"row {n}" for n in range(rows)],
    "v": random.random((rows, 8), np.float32), "w": random.random((rows, 4), np.float32),
})
ds.commit("rows")
side = ds.branch("side")
side["label"][5] = "dog"
side.append({"id": -1, "label": "cat", "text": "", "v": np.zeros(8), "w": np.zeros(4)})
side.commit("side")
ds["text"][10] = "changed"
ds["w"][::3] = np.ones((rows // 3, 4), np.float32)
ds.delete(ds.query("WHERE id = 20"))
ds.commit("changes")
ds.merge("side")
ds.tag("merged")
for name in ("label", "text", "v"):
    ds.create_index(name)
ds.commit("indexes")
ds.query("WHERE label = 'cat'").save("cats")
with ds.run("first") as run:
    for _ in run.loader(batch_size=500, columns=["id", "_row"]):
        run.log(loss=1.0)
ds.query("WHERE label = 'dog'").materialize(str(folder / "copy"))
fork = tl.fork(str(folder / "history"), str(folder / "fork"))
fork["text"][0] = "forked"
fork.commit("fork")
"""


def compared(root: Path, folder: Path) -> list[str]:
    """Let the release read what this checkout writes; return what is wrong."""
    archive = subprocess.run(
        ["git", "archive", RELEASE], cwd=root, capture_output=True, check=False, timeout=TIMEOUT_S
    )
    if archive.returncode:
        return [
            f"{archive.stderr.decode().strip()}\n  fetch the whole history: git fetch --unshallow"
        ]
    release, data = folder / "release", folder / "data"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(release, filter="data")
    data.mkdir()
    _python(root, "-c", WRITE, str(data))
    before = json.loads(_python(root, str(READ), str(data)))
    then = json.loads(_python(release, str(READ), str(data), "write"))
    _python(root, str(READ), str(data))
    problems = [*differences(before, then)]
    for name in before:
        done = _run(root, "-m", "tensorlake", "check", str(data / name))
        if done.returncode:
            problems.append(f"{name}: {done.stdout.strip()}\n  mend the format")
    return problems


def differences(here: Read, release: Read) -> Iterator[str]:
    """List what the release read otherwise, or refused by another error than it should."""
    for name, values in here.items():
        found = release.get(name, "nothing")
        if isinstance(found, str):
            if not found.startswith(REFUSED):
                yield f"{name}: 0.1.0 raised {found}\n  declare a feature for what it cannot read"
            continue
        written = found.get("write", "")
        if written != "committed" and not written.startswith(REFUSED):
            yield f"{name}: 0.1.0 raised {written} on a commit\n  declare a feature for writers"
        for tensor, value in values.items():
            if found.get(tensor) != value and not str(found.get(tensor)).startswith(REFUSED):
                yield (
                    f"{name}: 0.1.0 read {tensor!r} as {found.get(tensor)}, and this version as"
                    f" {value}\n  keep the stored form, or declare a feature"
                )


def _run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(tree / part) for part in ("", "query", "server"))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def _python(tree: Path, *arguments: str) -> str:
    done = _run(tree, *arguments)
    if done.returncode:
        raise RuntimeError(f"{tree.name}: {done.stderr.strip()[-2000:]}")
    return done.stdout
