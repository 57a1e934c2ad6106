"""tl.ingest with engine="ray": the rows of threads, whatever ends under way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tests.extras.ray.killed_call import killed_and_made_again

ray = pytest.importorskip("ray")
PIL = pytest.importorskip("PIL.Image")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

IMAGES = 60


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of several sizes in two folders."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(5)
    for number in range(IMAGES):
        place = folder / ("cat" if number % 3 else "dog") / f"{number:03}.png"
        place.parent.mkdir(exist_ok=True)
        pixels = random.integers(0, 255, (40, 40 + number % 5, 3), np.uint8)
        PIL.fromarray(pixels).save(place)
    return folder


def assert_same(one, other):
    assert one.schema == other.schema
    assert len(one) == len(other)
    for name in one.schema:
        pairs = zip(one[name].to_list(), other[name].to_list(), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), name
    assert other.check().ok


def by_both(importer, source, tmp_path, **options):
    """Ingest by threads and by workers; small commits, so that there are several."""
    return [
        importer(source, str(tmp_path / f"{engine}.tl"), engine=engine, **options)
        for engine in ("threads", "ray")
    ]


def test_images_are_those_of_threads_and_the_same_call_again_adds_none(cluster, photos, tmp_path):
    threads, workers = by_both(tl.ingest.images, photos, tmp_path, commit_every="100kB")

    assert_same(threads, workers)
    assert len(workers.ingest_report.commits) == len(threads.ingest_report.commits) > 1
    assert workers.ingest_report.added == IMAGES
    for engine in ("threads", "ray"):
        again = tl.ingest.images(photos, workers.url, engine=engine)
        assert (again.ingest_report.unchanged, again.ingest_report.commits) == (IMAGES, [])
    checked = tl.ingest.images(photos, workers.url, verify=True)
    assert (checked.ingest_report.unchanged, checked.ingest_report.updated) == (IMAGES, 0)


def test_pieces_of_tables_are_those_of_threads(cluster, tmp_path):
    table = pa.table({"n": [*range(5000)], "text": [f"line {n}" * (n % 4) for n in range(5000)]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    lines = [json.dumps({"n": n, "x": [n] * (n % 3)}) for n in range(900)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    (tmp_path / "rows.csv").write_text("a,b\n" + "\n".join(f"{n},t{n}" for n in range(800)))

    for importer in (tl.ingest.parquet, tl.ingest.jsonl, tl.ingest.csv):
        name = importer.__name__
        place = tmp_path / name
        place.mkdir()
        threads, workers = by_both(importer, tmp_path / f"rows.{name}", place)
        assert_same(threads, workers)
        again = importer(tmp_path / f"rows.{name}", workers.url, verify=True)
        assert (again.ingest_report.added, again.ingest_report.commits) == (0, [])


def test_rows_in_memory_and_rows_by_key_are_those_of_threads(cluster, tmp_path):
    arrays = {"x": np.arange(600, dtype=np.float32).reshape(200, 3), "y": np.arange(200)}
    assert_same(*by_both(tl.ingest.numpy, arrays, tmp_path))
    keyed = pa.table({"id": [f"k{n}" for n in range(300)], "v": [*range(300)]})
    folder = tmp_path / "keyed"
    folder.mkdir()
    threads, workers = by_both(tl.ingest.arrow, keyed, folder, key="id")
    assert_same(threads, workers)

    changed = pa.table({"id": [f"k{n}" for n in range(305)], "v": [-1, *range(1, 305)]})
    now = tl.ingest.arrow(changed, workers.url, key="id", engine="ray")

    report = now.ingest_report
    assert (report.added, report.updated, report.unchanged) == (5, 1, 299)
    assert now["v"][:].tolist() == [-1, *range(1, 305)]


def test_images_of_a_class_that_the_source_has_since_are_added(cluster, photos, tmp_path):
    folder, url = tmp_path / "photos", str(tmp_path / "photos.tl")
    shutil.copytree(photos, folder)
    tl.ingest.images(folder, url).close()
    (folder / "owl").mkdir()
    PIL.fromarray(np.zeros((9, 8, 3), np.uint8)).save(folder / "owl" / "1.png")

    added = tl.ingest.images(folder, url, engine="ray")

    assert added.ingest_report.added == 1
    assert added["label"].names[-1] == "owl"
    assert (len(added), added[-1]["image"].shape) == (IMAGES + 1, (9, 8, 3))
    assert added[-1]["label"] == "owl"


def test_invalid_items_are_those_of_threads(cluster, photos, tmp_path):
    folder = tmp_path / "some"
    (folder / "cat").mkdir(parents=True)
    for number, place in enumerate(sorted(photos.glob("cat/*.png"))[:9]):
        content = place.read_bytes()
        (folder / "cat" / place.name).write_bytes(content[: 20 if number == 4 else None])

    threads, workers = by_both(tl.ingest.images, folder, tmp_path, on_error="quarantine")
    assert_same(threads, workers)
    assert workers.ingest_report.skipped == threads.ingest_report.skipped
    assert len(tl.open(workers.ingest_report.quarantine)) == 1

    errors = []
    for engine in ("threads", "ray"):
        with pytest.raises(tl.errors.InvalidInputError) as raised:
            tl.ingest.images(folder, str(tmp_path / "no.tl"), engine=engine)
        errors.append(str(raised.value))
        assert not tl.exists(str(tmp_path / "no.tl"))
    assert errors[0] == errors[1]


def test_a_worker_that_is_killed_has_its_items_read_again(cluster, photos, tmp_path):
    from tensorlake.ingest import engine as engines

    mark, files = tmp_path / "killed", sorted(photos.glob("*/*.png"))

    def load(items):
        if files[30] in items and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"n": [len(file.read_bytes()) for file in items]}

    source = engines.Source(
        kind="sizes",
        schema={"n": "int64"},
        items=files,
        sizes=[1 << 20] * len(files),
        name=str,
        load=load,
    )
    made = engines.run_ingest(source, str(tmp_path / "made.tl"), engine="ray", commit_every="20MB")

    assert mark.exists()
    assert made["n"][:].tolist() == [file.stat().st_size for file in files]


def test_what_no_worker_could_do_is_refused_before_anything_is_made(cluster, tmp_path):
    import threading

    class Rows:
        lock = threading.Lock()

        def __len__(self):
            return 2

        def __getitem__(self, at):
            return {"x": at}

    with pytest.raises(tl.errors.InvalidInputError, match="in the memory of this process"):
        tl.ingest.numpy({"x": [1]}, "memory://ray-ingest", engine="ray")
    assert not tl.exists("memory://ray-ingest")
    with pytest.raises(tl.errors.InvalidInputError, match="cannot be sent to workers"):
        tl.ingest.torch(Rows(), str(tmp_path / "rows.tl"), engine="ray")
    assert not tl.exists(str(tmp_path / "rows.tl"))


CALL = """
tl.ingest.images(source, to, engine="ray", commit_every="80kB").ingest_report.already_there
"""


def test_a_call_that_is_killed_and_made_again_has_each_image_once(photos, tmp_path):
    to = str(tmp_path / "made.tl")

    there, printed = killed_and_made_again(str(photos), to, CALL.strip())

    assert 0 < there < IMAGES
    assert printed.split() == [str(there)]
    assert_same(tl.ingest.images(photos, str(tmp_path / "threads.tl")), tl.open(to))


def test_the_command_is_the_call(cluster, photos, tmp_path):
    url = str(tmp_path / "photos.tl")
    threads = tl.ingest.images(photos, tmp_path / "threads.tl")

    run = subprocess.run(
        [
            *(sys.executable, "-m", "tensorlake", "ingest", "images", str(photos), url),
            *("--engine", "ray", "--workers", "2", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address},
    )

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["added"] == IMAGES
    assert_same(threads, tl.open(url))
