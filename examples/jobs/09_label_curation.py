"""Find labels that a model disagrees with, review them, correct them on a branch, merge.

Work on a branch is invisible to training runs on main until it is merged, all at once; a merge
applies the rows and values that changed, by row identity.
"""

from pathlib import Path

import numpy as np

import tensorlake as tl

MNIST = Path(__file__).resolve().parents[1] / "data" / "mnist"
READ_AS = {947: "9", 5937: "3"}  # a person's reading, where the labels of MNIST are 8 and 5

ds = tl.ingest.idx(
    MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz", "memory://job9/digits"
)

# 1. Predictions are tensors like any other, on a branch of their own.
work = ds.branch("fix-labels")
flat = work["image"][:].reshape(len(work), -1).astype(np.float32)
labels = np.asarray(work["label"][:])
centres = np.stack([flat[labels == code].mean(axis=0) for code in range(10)])
distance = (centres**2).sum(axis=1) - 2 * flat @ centres.T  # up to the image's own length
nearest = np.sort(distance, axis=1)
work.add_tensor("pred", tl.ClassLabel(ds["label"].names), fill="0")
work.add_tensor("margin", "float32", fill=0.0)
work["pred"][:] = distance.argmin(axis=1)
work["margin"][:] = (nearest[:, 1] - nearest[:, 0]) / 1e6
work.commit("nearest class centre")

# 2. Find rows where the model is confident and the label differs, worst first.
doubtful = work.query("WHERE pred <> label ORDER BY margin DESC LIMIT 500")
print(doubtful)
print(doubtful[["label", "pred", "margin"]][:5].to_pandas())

# 3. Apply a person's decisions.
with work.transaction("two digits, read again"):
    for row, name in READ_AS.items():
        work["label"][row] = name
print(work.diff("main@1"))

# 4. Predictions stay behind; the corrections reach main as one commit.
work.drop_tensor("pred")
work.drop_tensor("margin")
work.commit("tidy")
assert "pred" not in ds.schema
print(ds.merge("fix-labels"))
ds.refresh()
assert [ds["label"].names[code] for code in ds["label"][list(READ_AS)]] == list(READ_AS.values())
