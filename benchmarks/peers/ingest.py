"""Other formats' writers, beside ours: JPEG files in, none with fsync (`ingest_tasks.py`).

Each runs in the environment that the other benchmarks made for it; one that is not there is made
first. A peer that does not install, or fails, is a line with the reason, without a figure.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness.data import SCRIPTS, Workspace, jpeg_paths
from benchmarks.harness.runs import Contender, Measurement
from benchmarks.peers.loader import LOADERS
from benchmarks.peers.processes import ask
from benchmarks.peers.storage import peer_called

__all__ = ["jpeg_writers", "prepare_writers"]

NAMES = {
    "deeplake": "Deep Lake",
    "mds": "MDS",
    "webdataset": "WebDataset",
    "litdata": "LitData",
    "lance": "Lance",
}
OWN_ENVIRONMENT = "deeplake"  # the others write with the environment that they load with
RUN_LIMIT_S = 60


def jpeg_writers() -> tuple[Contender, ...]:
    """Make a contender of each peer."""
    return tuple(Contender(name, partial(_write, key=key)) for key, name in NAMES.items())


def prepare_writers(workspace: Workspace) -> None:
    """Lay out the images, and install the peers that are not installed."""
    jpeg_paths(workspace)
    for environment in (peer_called(OWN_ENVIRONMENT).environment, LOADERS):
        environment.make()


def _write(workspace: Workspace, *, key: str) -> Measurement:
    paths = jpeg_paths(workspace)
    nbytes = sum(path.stat().st_size for path in paths)
    place = workspace.scratch(f"jpegs.{key}")
    own = peer_called(OWN_ENVIRONMENT).environment
    environment = own if key == OWN_ENVIRONMENT else LOADERS
    if environment.refusal:
        return Measurement(0, 0, note=environment.refusal)
    script = SCRIPTS / "ingest_tasks.py"
    command = [str(environment.python), str(script), key, str(paths[0].parent), str(place)]
    answer = ask(command, limit_s=RUN_LIMIT_S)
    if answer.note:
        return Measurement(0, 0, note=answer.note)
    found = answer.figures
    facts = {"stored ÷ media": found["stored"] / nbytes}
    return Measurement(found["seconds"], nbytes / 1e6, found["cpu_seconds"], facts)
