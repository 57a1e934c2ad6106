"""Jobs as people write them, line by line; only models, machines and file sizes are stand-ins.

``examples/jobs`` are whole programs. Here is the code that users of each trade type first: idioms
of their framework, handles that are not closed, loops that stop in the middle.
"""

# ruff: noqa: E501 - lines as their writers have them

from pathlib import Path
from textwrap import dedent

import numpy as np
import PIL.Image
import pytest
import simplejpeg
import torch

import tensorlake as tl
from tests.support.commands import tensorlake

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(code: str, **given) -> dict:
    """Run a job in a module of its own; return what it defined."""
    world = {"tl": tl, "np": np, "torch": torch, "F": torch.nn.functional, **given}
    exec(compile(dedent(code), "job", "exec"), world)
    return world


class Mean(torch.nn.Linear):
    """A network: of the mean of each channel."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(3, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.mean((2, 3)))


def test_job_1_a_folder_of_images_to_a_classifier_that_resumes(folder):
    rng = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(20):
            size = (40, 24, 3) if number % 2 else (24, 40, 3)
            jpeg = simplejpeg.encode_jpeg(rng.integers(0, 255, size, dtype=np.uint8))
            (folder / "photos" / name / f"{number}.jpg").write_bytes(jpeg)
    run('ds = tl.ingest.images("photos/", "pets.tl")')
    job = """
        ds = tl.open("pets.tl")
        parts = ds.split({"train": .9, "val": .1}, stratify="label")
        aug = [tl.decode.RandomResizedCrop(32, 32), tl.decode.Flip(), tl.decode.ToFloat()]
        train = parts["train"].torch(batch_size=8, shuffle=True, decode={"image": aug}, layout="NCHW", device="cpu")
        val = parts["val"].torch(batch_size=512, decode={"image": tl.decode.imagenet(train=False)}, layout="NCHW", device="cpu")
        model = resnet50(num_classes=len(ds["label"].names)); opt = torch.optim.SGD(model.parameters(), 0.1)
        if os.path.exists("last.pt"):
            ck = torch.load("last.pt"); model.load_state_dict(ck["model"]); train.load_state_dict(ck["data"])
        for epoch in range(train.epoch, 3):
            for step, b in enumerate(tqdm(train)):
                loss = F.cross_entropy(model(b["image"]), b["label"]); loss.backward(); opt.step(); opt.zero_grad()
                seen.append((epoch, b["image"].shape[0]))
                if step % 2 == 0: torch.save({"model": model.state_dict(), "data": train.state_dict()}, "last.pt")
                if (epoch, step) == stop: raise KeyboardInterrupt
            for b in val: ...
    """
    given = {"os": __import__("os"), "resnet50": Mean, "tqdm": list_with_length, "seen": []}

    with pytest.raises(KeyboardInterrupt):
        run(job, **given, stop=(1, 2))
    rows = len(
        run("parts = tl.open('pets.tl').split({'train': .9, 'val': .1}, stratify='label')")[
            "parts"
        ]["train"]
    )
    run(job, **given, stop=None)

    counts = [sum(n for epoch, n in given["seen"] if epoch == e) for e in range(3)]
    assert counts == [rows, rows, rows], "nothing lost, nothing twice, across the interrupt"


def list_with_length(loader):
    assert len(loader) > 0
    return loader


def test_job_3_detection_with_a_list_of_targets():
    world = run(
        """
        ds = tl.ingest.coco(COCO / "instances.json", COCO / "images", "coco")
        view = ds.query("WHERE LENGTH(boxes) > 0 AND NOT ANY(iscrowd)")
        train = view.torch(batch_size=4, shuffle=True, columns=["image", "boxes", "label", "_row"],
            decode={"image": [tl.decode.Letterbox(64), tl.decode.Flip()]},
            collate={"boxes": "list", "label": "list"})
        for b in train:
            targets = [{"boxes": x, "labels": y} for x, y in zip(b["boxes"], b["label"])]
            seen += [(list(b["image"].float().div(255)), targets)]
        """,
        COCO=DATA / "coco",
        seen=[],
    )

    assert sum(len(images) for images, _ in world["seen"]) == len(world["view"]) > 0
    for images, targets in world["seen"]:
        assert {image.shape for image in images} == {(64, 64, 3)}
        assert all(len(one["boxes"]) == len(one["labels"]) > 0 for one in targets)


def test_job_6_workers_append_daily_and_train_on_a_saved_view():
    rng = np.random.default_rng(6)

    class Shard:
        def __init__(self, name: str) -> None:
            self.name = name
            sizes = rng.choice([128, 256], 8)
            self.jpegs = [
                simplejpeg.encode_jpeg(np.full((size, size, 3), 9, np.uint8)) for size in sizes
            ]
            self.texts = [f"{name} {number}" for number in range(8)]
            self.urls = [f"http://{name}/{number}" for number in range(8)]
            self.scores = rng.random(8).astype("float32")

    def embed(batch):
        seen.append(len(batch["image"]))
        return {"vec": np.ones((len(batch["image"]), 512), "float32")}

    tl.create(
        "laion",
        {"image": tl.Image("jpeg"), "caption": "str", "url": "str", "clip_score": "float32"},
    ).close()
    shards = {worker: [Shard(f"{worker}-{number}") for number in range(2)] for worker in "ab"}
    job = """
        ds = tl.open("laion")                                                   # each worker
        for shard in my_shards(today, worker):
            ds.extend({"image": shard.jpegs, "caption": shard.texts, "url": shard.urls, "clip_score": shard.scores})
            ds.commit(f"{today} {shard.name}", key=shard.name)
    """
    given = {"my_shards": lambda today, worker: shards[worker], "today": "2026-11-28"}
    for worker in ("a", "b", "a"):  # a is started again: its keys are there
        run(job, worker=worker, **given)
    seen: list[int] = []
    world = run(
        """
        ds = tl.open("laion")
        ds.map(embed, schema={"vec": tl.Embedding(512)}, columns=["image"], batch_size=256, where="vec IS NULL")
        ds.commit("vectors"); ds.create_index("vec")
        good = ds.query("WHERE clip_score > 0.28 AND SHAPE(image)[0] >= 256"); good.save("clip-v3")
        train = ds.views["clip-v3"].torch(global_batch_size=32768, shuffle=True, columns=["image", "caption"])
        batches = list(train)
        """,
        embed=embed,
    )

    assert len(world["ds"]) == 32
    assert sum(seen) == 32
    assert world["ds"].where("vec IS NULL").count() == 0
    (batch,) = world["batches"]
    assert sorted(batch["caption"]) == sorted(world["good"]["caption"][:])
    assert batch["image"].shape == (len(world["good"]), 256, 256, 3)


def test_job_10_search_with_filters():
    rng = np.random.default_rng(10)
    topics = rng.standard_normal((40, 768)).astype("float32")
    about = rng.integers(0, 40, 5000)
    start = np.datetime64("2026-01-01")
    given = {
        "chunks": [f"passage {number} on topic{topic}" for number, topic in enumerate(about)],
        "src": ["wiki" if number % 3 else "web" for number in range(5000)],
        "ts": [start + np.timedelta64(number, "h") for number in range(5000)],
        "t0": start + np.timedelta64(500, "h"),
        "q": "topic7",
        "v": topics[7],
        "shown": [],
    }

    def embed(texts):
        numbers = [int(text.split("topic")[1]) for text in texts]
        return topics[numbers] + 0.1 * rng.standard_normal((len(texts), 768)).astype("float32")

    world = run(
        """
        docs = tl.create("memory://docs", {"text": tl.Text(), "source": "str", "at": tl.Timestamp(), "vec": tl.Embedding(768, metric="cosine")})
        docs.extend({"text": chunks, "source": src, "at": ts, "vec": embed(chunks)}); docs.commit("import")
        docs.create_index("vec"); docs.create_index("text", "text"); docs.commit("indexes")
        found = docs.search("vec", embed([q])[0], k=20, where="source = 'wiki' AND at > $t", params={"t": t0})
        hits = docs.query("SELECT text, COSINE_SIMILARITY(vec, $q) AS score WHERE source = 'wiki' ORDER BY score DESC LIMIT 20", q=v)
        for r in hits: shown.append((r["score"], r["text"]))
        """,
        embed=embed,
        **given,
    )

    rows = np.arange(5000)
    on_topic = rows[(about == 7) & (rows % 3 > 0)]
    assert len(world["found"]) == len(world["shown"]) == 20
    assert set(world["found"].rows.tolist()) <= set(on_topic[on_topic > 500].tolist())
    assert all(text.endswith("topic7") for _, text in world["shown"])
    assert (
        world["docs"].search("text", "topic7", k=20).rows.tolist()
        == np.flatnonzero(about == 7)[:20].tolist()
    )


def test_job_13_hugging_face_in_and_out():
    datasets = pytest.importorskip("datasets")
    images = [PIL.Image.new("RGB", (8, 8), (row, 0, 0)) for row in range(30)]
    table = datasets.Dataset.from_dict({"image": images, "label": [row % 15 for row in range(30)]})
    table = table.cast_column("image", datasets.Image())
    table = table.cast_column(
        "label", datasets.ClassLabel(names=[f"dish {one}" for one in range(15)])
    )

    world = run(
        """
        ds = tl.ingest.huggingface(load_dataset("food101", split="train"), "food.tl")
        view = ds.select(pixel_values="image", labels="label")
        hf = ds.where("label < 10").to_hf()
        """,
        load_dataset=lambda name, split: table,
    )

    assert world["view"][3]["labels"] == 3
    assert len(world["hf"]) == 20
    assert world["hf"].features["label"].names == table.features["label"].names
    assert world["hf"][0]["image"].size == (8, 8)


def digits(url: str, count: int) -> tl.Dataset:
    rng = np.random.default_rng(2)
    ds = tl.create(
        url,
        {
            "image": tl.Array("uint8", (8, 8)),
            "label": tl.ClassLabel([str(one) for one in range(10)], nullable=True),
            "tags": tl.Tags(),
        },
        durability="none",
    )
    images = rng.integers(0, 255, (count, 8, 8), dtype=np.uint8)
    ds.extend({"image": images, "label": [i % 10 for i in range(count)], "tags": [[]] * count})
    ds.commit("digits")
    return ds


def test_job_9_labels_are_curated_on_a_branch(monkeypatch):
    shown = []
    monkeypatch.setattr(tl.View, "show", lambda self: shown.append(len(self)))

    def predict(batch):
        count = len(batch["image"])
        return {"pred": np.zeros(count, int), "conf": np.linspace(0.9, 1, count).astype("float32")}

    def somebody_tags():
        with tl.open("digits", "fix-labels") as theirs:
            rows = theirs.query("WHERE pred != label AND conf > 0.95 LIMIT 5").rows
            theirs["tags"][rows] = [["use pred"]] * 5
            theirs.commit("looked at")

    world = run(
        """
        exp = ds.branch("fix-labels")
        exp.map(predict, schema={"pred": tl.ClassLabel(ds["label"].names), "conf": "float32"}, columns=["image"], batch_size=256)
        exp.commit("predictions of r50@abc")
        bad = exp.query("WHERE pred != label AND conf > 0.95 ORDER BY conf DESC LIMIT 500")
        bad.show()
        somebody_tags()
        exp.refresh()
        exp["label"][exp.query("WHERE CONTAINS(tags, 'use pred')")] = "0"
        exp.commit("fixed"); diff = str(ds.diff("main", "fix-labels"))
        exp.drop_tensor("conf"); exp.commit("tidy"); ds.merge("fix-labels", on_conflict="error")
        """,
        ds=digits("digits", 300),
        predict=predict,
        somebody_tags=somebody_tags,
    )

    assert shown == [len(world["bad"])]
    assert "5 rows updated" in world["diff"]
    assert "conf" not in tl.open("digits").schema
    assert (np.asarray(tl.open("digits")["label"][:]) == 0).sum() == 35


@pytest.mark.filterwarnings("ignore:.*entropy:tensorlake.NullColumnWarning")
def test_job_11_active_learning_waits_for_labellers(monkeypatch):
    ds = digits("pool", 300)
    truth = np.asarray(ds["label"][:])
    ds["label"][20:] = None
    ds.commit("twenty labels")

    def somebody_labels(_view):
        with tl.open("pool") as theirs:
            rows = theirs.views[max(theirs.views)].rows
            theirs["label"][rows] = truth[rows]
            theirs.commit("labels")

    monkeypatch.setattr(tl.View, "show", somebody_labels)

    def train(loader):
        assert sum(len(b["label"]) for b in loader) > 0
        return lambda images: torch.rand(len(images), 10)

    world = run(
        """
        ds.add_tensor("entropy", tl.Scalar("float32", nullable=True))
        for rnd in range(3):
            ds.refresh(); labelled, pool = ds.where("label IS NOT NULL"), ds.where("label IS NULL")
            before = len(pool)
            model = train(labelled.torch(batch_size=128, shuffle=True, seed=rnd))
            for b in pool.torch(batch_size=512, columns=["image", "_row"]):
                ds["entropy"][b["_row"]] = entropy(model(b["image"])).cpu()
            ds.commit(f"round {rnd}")
            ask = ds.where("label IS NULL").order_by("entropy DESC").take(50); ask.save(f"ask-{rnd}"); ask.show()
            for commit in ds.follow():
                if ds.refresh().where("label IS NULL").count() <= before - 50: break
        """,
        ds=ds,
        train=train,
        entropy=lambda scores: -(scores * scores.log()).sum(1),
    )

    assert world["ds"].where("label IS NOT NULL").count() == 20 + 3 * 50


def test_job_12_pandas_duckdb_polars_and_back(folder):
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    ds = digits("scores", 40)
    ds.add_tensor("conf", "float32", fill=0.5)
    ds.add_tensor("url", "str", fill="")
    ds["url"][:] = [f"u{row}" for row in range(40)]
    ds.commit("confidence")

    world = run(
        """
        import duckdb, polars as pl
        df = ds.query("SELECT label, COUNT(*) AS n, AVG(SHAPE(image)[0]) AS h GROUP BY label ORDER BY n DESC").to_pandas()
        counts = duckdb.sql("SELECT label, count(*) FROM ds GROUP BY 1").fetchall()
        frame = pl.from_arrow(ds[["label", "conf"]])
        df = ds.to_pandas()
        df["conf"] = df["conf"] * 2
        ds["conf"][df.index] = df["conf"]
        ds.commit("doubled")
        scores = df[["url", "conf"]].head(5)
        tl.ingest.arrow(scores, "scores.tl"); both = ds.query("SELECT * FROM this JOIN $df AS d USING (url)", df=scores)
        """,
        ds=ds,
    )

    assert sorted(world["counts"]) == [(str(one), 4) for one in range(10)]
    assert len(world["frame"]) == 40
    assert set(np.asarray(world["ds"]["conf"][:])) == {1.0}
    assert len(world["both"]) == 5


@pytest.mark.slow
def test_job_14_an_admin_looks_after_a_lake(folder):
    digits("lake/pets", 30)

    def run_command(*arguments: str) -> str:
        status, printed = tensorlake(arguments, folder=folder)
        assert status == 0, printed
        return printed

    token = run_command(
        "token", "create", "--name", "ci", "--scope", "write:pets", "--expires", "90d"
    )
    served = run_command("serve", "lake", "--auth", "tokens.toml", "--print-config")
    checked = run_command("check", "lake/pets", "--json")
    run_command("gc", "lake/pets", "--dry-run")
    run_command("copy", "lake/pets", "other/pets", "--history", "--workers", "32")
    run_command("expire", "lake/pets", "--older-than", "90d")

    assert token.startswith("tl_")
    assert "tokens.toml" in served
    assert '"ok": true' in checked
    assert run_command("ls", "lake").split() == ["pets"]
    assert len(tl.open("other/pets")) == 30
