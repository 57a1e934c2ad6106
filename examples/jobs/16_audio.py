"""Speech: a folder of FLAC files and a CSV of transcripts, to batches of mel spectrograms.

A chunk of each file is read, resampled and turned into a spectrogram; batches are padded to their
longest, and a run that stopped continues with the same chunks.
"""

import csv
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
import torch

import tensorlake as tl

with tempfile.TemporaryDirectory() as made:
    clips = Path(made, "clips")
    clips.mkdir()
    rng = np.random.default_rng(0)
    rows = []
    for number in range(12):  # tones with noise, of 1 to 4 s
        time = np.arange(int(22_050 * rng.uniform(1, 4))) / 22_050
        sound = 0.3 * np.sin(2 * np.pi * 110 * (number + 1) * time)
        soundfile.write(clips / f"{number:02}.flac", sound + rng.normal(0, 0.01, len(time)), 22_050)
        rows.append([f"{number:02}.flac", f"tone {number + 1}"])
    with Path(made, "transcripts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["file", "text"], *rows])

    # 1. A row per file: the sound as it is, and its transcript.
    ds = tl.ingest.audio(clips, "memory://job16/speech", labels=Path(made, "transcripts.csv"))
print(ds)

# 2. A part of a file reads its packets only.
a = ds[0]["audio"]
print(f"{a.rate} Hz, {a.duration:.2f} s, half a second has {a.seconds[0.2:0.7].shape[0]} frames")

# 3. Chunks of at most 2 s at 16 kHz as 80 mel bands, padded to the longest of a batch.
steps = [tl.decode.Resample(16_000), tl.decode.AudioChunk(2.0), tl.decode.Mel(80)]

loader = partial(  # of one epoch; equal arguments give equal batches
    ds.torch,
    batch_size=4,
    shuffle=True,
    seed=3,
    decode={"audio": steps},
    collate={"audio": "pad"},
)
train = loader()
state = None
seen = []
for batch in train:
    assert batch["audio"].shape[0] == len(batch["text"])
    assert batch["audio"].shape[2] == 80
    seen.append(batch)
    if len(seen) == 1:
        state = train.state_dict()

# 4. Another process continues after the first batch, with the same chunks.
again = loader()
again.load_state_dict(state)
for batch, before in zip(again, seen[1:], strict=True):
    assert batch["text"] == before["text"]
    assert torch.equal(batch["audio"], before["audio"])
print(f"{len(seen)} batches, {sum(len(one['text']) for one in seen)} clips; resumed exactly")
