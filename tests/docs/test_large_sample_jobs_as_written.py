"""Jobs of tokens, volumes, video, episodes and sound, line by line as their users write them.

As ``test_jobs_as_written``: only models, sizes and files are stand-ins.
"""

# ruff: noqa: E501 - lines as their writers have them

import json
from textwrap import dedent

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch

import tensorlake as tl
from tests.support.dicoms import series_bytes
from tests.support.videos import video_file


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(job: str, /, **given) -> dict:
    """Run a job in a module of its own; return what it defined."""
    world = {"tl": tl, "np": np, "torch": torch, **given}
    exec(compile(dedent(job), "job", "exec"), world)
    return world


class Bytes:
    """A tokenizer as transformers has them: of bytes."""

    eos_token_id = 256

    def __call__(self, texts: list[str]) -> dict[str, list[list[int]]]:
        return {"input_ids": [[*text.encode()] for text in texts]}


@pytest.mark.slow
def test_job_4_json_lines_to_packed_tokens_of_a_mix_that_resumes(folder):
    texts = [f"{number} to be, or not to be: that is the question" for number in range(300)]
    for name, count in (("web", 300), ("code", 120), ("wiki", 60)):
        (folder / "raw" / name).mkdir(parents=True)
        for part in range(2):
            lines = "\n".join(json.dumps({"text": text}) for text in texts[part:count:2])
            path = str(folder / "raw" / name / f"{part}.jsonl.zst")
            with pa.output_stream(path, compression="zstd") as file:
                file.write(lines.encode())
    sets = {}
    for name in ("web", "code", "wiki"):
        world = run(
            f"""
            web  = tl.ingest.jsonl("raw/{name}/*.jsonl.zst", "b/{name}", schema={{"text": tl.Text()}})
            web  = web.map(lambda b: {{"tokens": tok(b["text"])["input_ids"]}}, columns=["text"], batch_size=1000,
                           schema={{"tokens": tl.Array("uint16", (None,))}}, engine="processes", workers=2)
            web.commit("gpt2 tokens")
            """,
            tok=Bytes(),
        )
        sets[name] = world["web"]
    job = """
        mix  = tl.mix({"web": (web, .6), "code": (code, .3), "wiki": (wiki, .1)}, by="tokens", stop="never")
        train = mix.pack("tokens", 64, eos=tok.eos_token_id).torch(global_batch_size=50, shuffle=True, seed=1, device="cpu", decode={"tokens": tl.decode.Cast("int64")})
        train.load_state_dict(ck["data"]) if ck else None
        for step, b in zip(range(ck_step, stop), train):
            x = b["tokens"]; seen.append((x[:, :-1], x[:, 1:], b["segments"], b["_source"]))
        state = train.state_dict()
    """
    given = {**sets, "tok": Bytes()}

    whole: list = []
    run(job, **given, ck=None, ck_step=0, stop=20, seen=whole)
    parts: list = []
    first = run(job, **given, ck=None, ck_step=0, stop=8, seen=parts)
    run(job, **given, ck={"data": first["state"]}, ck_step=8, stop=20, seen=parts)

    for one, other in zip(whole, parts, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    shares = np.bincount(torch.cat([source for *_, source in whole]).numpy()) / 1000
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.01


@pytest.mark.slow
def test_job_7_dicom_studies_to_patches_about_tissue_and_boxes_that_cover(folder):
    rng = np.random.default_rng(7)
    for number in range(4):
        (folder / "studies" / f"p{number}").mkdir(parents=True)
        voxels = rng.integers(0, 2000, (100 + number, 100, 110)).astype(np.uint16)
        for plane, file in enumerate(series_bytes(voxels, SeriesInstanceUID=f"1.2.{number + 1}")):
            (folder / "studies" / f"p{number}" / f"{plane}.dcm").write_bytes(file)

    def segment(row):
        voxels = row["ct"][:]
        return {"mask": (voxels > 1000).astype("uint8") + (voxels > 1950)}

    world = run(
        """
        ds = tl.ingest.dicom("studies/", "ct", tensor="ct", pattern="{patient_id}/*", headers=["Modality"])
        ds.map(segment, schema={"mask": tl.SegmentMask(["background", "liver", "tumour"], of="ct")}, columns=["ct"])
        ds.commit("masks"); parts = ds.split({"train": .8, "val": .2}, group="patient_id", seed=2)
        train = parts["train"].torch(batch_size=4, shuffle=True, decode={"ct": [tl.decode.RandomPatch((96,)*3, n=2, center_on="mask", positive=.5), tl.decode.Cast("int32")]})
        val = parts["val"].windows(["ct", "mask"], size=(96,)*3, step=(64,)*3, tail="shift").torch(batch_size=8, decode={"ct": tl.decode.Cast("int32")})
        trained = [b for b in train]
        covered = [b for b in val]
        affine, modality = ds[0]["ct"].affine, ds[0]["ct"].header["Modality"]
        """,
        segment=segment,
    )

    assert world["affine"].shape == (4, 4)
    assert world["modality"] == "CT"
    for batch in [*world["trained"], *world["covered"]]:
        assert batch["ct"].shape[-3:] == (96, 96, 96)
        assert ((batch["ct"] > 1000) == (batch["mask"] > 0)).all()
    assert sum(len(batch["ct"]) for batch in world["covered"]) >= 1


def test_job_8_video_clips_for_training_and_several_of_each_for_a_vote(folder):
    for name in ("jump", "run"):
        (folder / "clips" / name).mkdir(parents=True)
        (folder / "clips" / name / "a.mp4").write_bytes(video_file("h264", 400))
    world = run(
        """
        ds = tl.ingest.video("clips/", "kinetics")
        train = ds.torch(batch_size=8, shuffle=True, columns=["video", "label"],
            decode={"video": [tl.decode.Clip(frames=16, stride=2, start="random"), tl.decode.RandomResizedCrop(112, 112)]})
        test = ds.windows("video", size=16, stride=2, step=160).torch(batch_size=8, decode={"video": tl.decode.Resize(48, 64)})
        v = ds[0]["video"]; told = v.fps, len(v), v[0:32:2].shape, v.at(seconds=12.5).shape
        trained, votes = list(train), [row for b in test for row in b["_row"].tolist()]
        """
    )

    (batch,) = world["trained"]
    assert batch["video"].shape == (2, 16, 112, 112, 3)
    assert votes_of(world["votes"]) == {0: 3, 1: 3}
    fps, frames, strided, one = world["told"]
    assert frames == 400
    assert strided == (16, 48, 64, 3)
    assert one == (48, 64, 3)
    assert fps > 0


def votes_of(rows):
    return {row: rows.count(row) for row in rows}


def test_job_15_episodes_of_a_lerobot_folder_to_windows():
    rng = np.random.default_rng(0)
    schema = {"episode": "int64", "t": "int64", "state": tl.Array("float32", (6,))}
    schema |= {"action": tl.Array("float32", (2,)), "frame": tl.Image("png")}
    made = tl.create("memory://job15-as-written", schema)
    for episode, length in enumerate((40, 12, 30)):
        made.extend(
            {
                "episode": [episode] * length,
                "t": range(length),
                "state": rng.normal(0, 1, (length, 6)),
                "action": rng.normal(0, 1, (length, 2)),
                "frame": rng.integers(0, 255, (length, 64, 64, 3)).astype(np.uint8),
            }
        )
    made.commit("three episodes")
    made.to_lerobot("pusht", fps=10)

    world = run(
        """
        ds = tl.ingest.lerobot("pusht/", "b/pusht")                               # a row is a step: episode, t, state, action, frame
        w = ds.windows(columns=["state", "action", "frame"], by="episode", size=16, step=1, tail="drop")
        train = w.torch(batch_size=64, shuffle=True, decode={"frame": tl.decode.Resize(96, 96)})
        for b in train: shapes = {name: tuple(b[name].shape) for name in ("state", "action", "frame")}
        """
    )

    count = 25 + 15  # none of the episode of 12 steps
    assert world["shapes"] == {
        "state": (count, 16, 6),
        "action": (count, 16, 2),
        "frame": (count, 16, 96, 96, 3),
    }


def test_job_16_sound_with_transcripts_to_padded_spectrograms(folder):
    rng = np.random.default_rng(0)
    (folder / "clips").mkdir()
    lines = ["file,text"]
    for number in range(20):
        rate = 22_050 if number % 3 else 16_000
        sound = rng.normal(0, 0.1, int(rate * rng.uniform(1, 10)))
        soundfile.write(folder / "clips" / f"{number:02}.flac", sound, rate)
        lines.append(f"{number:02}.flac,words {number}")
    (folder / "transcripts.csv").write_text("\n".join(lines))

    world = run(
        """
        ds = tl.ingest.audio("clips/", "speech.tl", labels="transcripts.csv")
        train = ds.torch(batch_size=16, shuffle=True, decode={"audio": [tl.decode.Resample(16_000), tl.decode.AudioChunk(8.0), tl.decode.Mel(80)]}, collate={"audio": "pad"})
        a = ds[0]["audio"]; told = a.rate, a.duration, a.seconds[0.2:0.7].shape
        batches = list(train); state = train.state_dict()
        """
    )

    assert [len(batch["text"]) for batch in world["batches"]] == [16, 4]
    for batch in world["batches"]:
        assert batch["audio"].shape[2] == 80
        assert batch["audio"].shape[:2] == batch["audio_mask"].shape
        assert batch["audio_mask"].any(1).all()
    assert sorted(text for b in world["batches"] for text in b["text"]) == sorted(
        f"words {number}" for number in range(20)
    )
    assert world["told"][2] == (int(0.5 * world["told"][0]), 1)
