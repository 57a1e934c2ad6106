"""A folder of videos to random clips for training, and to all clips of each for a vote.

Videos are made for this page, of two sizes and lengths; their folders are the classes.
"""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tensorlake as tl

# 1. Files: the video type encodes arrays, and keeps files as they are.
made = tl.create("memory://job8/made", {"clip": tl.Video(fps=10)})
for number, (height, width) in enumerate([(48, 64), (64, 48)]):
    made.append({"clip": np.full((150 + 60 * number, height, width, 3), 99, np.uint8)})
made.commit("two videos")
with TemporaryDirectory() as folder:
    for name, row in zip(("jump", "run"), made, strict=True):
        Path(folder, name).mkdir()
        Path(folder, name, "a.mp4").write_bytes(row["clip"].content)
    ds = tl.ingest.video(folder, "memory://job8/clips")

# 2. A clip of each video, at a random place; all of its frames are cropped alike.
steps = [tl.decode.Clip(16, stride=2, start="random"), tl.decode.RandomResizedCrop(32, 32)]
train = ds.torch(
    batch_size=8, shuffle=True, columns=["video", "label"], decode={"video": steps}, layout="NCHW"
)
for batch in train:
    print("training", tuple(batch["video"].shape), batch["label"].tolist())

# 3. Clips that begin at every 60th frame; _row groups the votes for a video.
test = ds.windows(["video", "label"], size=16, stride=2, step=60)
votes: Counter[int] = Counter()
for batch in test.torch(batch_size=4, decode={"video": tl.decode.Resize(32, 32)}):
    votes.update(batch["_row"].tolist())
assert votes == {0: 2, 1: 3}
print(len(test), "clips, of the videos", dict(sorted(votes.items())))

# 4. A video is read by frame or by time.
video = ds[0]["video"]
print(video.fps, len(video), video[0:32:2].shape, video.at(seconds=12.5).shape)
