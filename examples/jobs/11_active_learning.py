"""Request the labels that a model needs most: fewer rounds of labelling, each one a commit.

Rows without a label are NULL, so labelled and unlabelled rows are queries. Annotators use handles
of their own, on any machine; the training handle follows the branch.
"""

from pathlib import Path

import numpy as np

import tensorlake as tl

MNIST = Path(__file__).resolve().parents[1] / "data" / "mnist"
URL = "memory://job11/digits"
FIRST, ASKED = 100, 100

ds = tl.ingest.idx(MNIST / "t10k-images-idx3-ubyte.gz", MNIST / "t10k-labels-idx1-ubyte.gz", URL)
truth = np.asarray(ds["label"][:])  # the annotators' labels
ds.alter_tensor("label", nullable=True)
ds["label"][FIRST:] = None
ds.add_tensor("margin", tl.Scalar("float32", nullable=True))
ds.commit(f"{FIRST} labels")


def centres(labelled: tl.View) -> np.ndarray:
    """Train: here the mean image of each digit, on batches as for a network."""
    sums, counts = np.zeros((10, 784)), np.zeros((10, 1))
    for batch in labelled.loader(batch_size=256, columns=["image", "label"], shuffle=True):
        np.add.at(sums, batch["label"], batch["image"].reshape(-1, 784))
        np.add.at(counts, batch["label"], 1)
    return sums / np.maximum(counts, 1)


def people_answer(name: str) -> None:
    """Label the rows of a saved view, given only the dataset's address."""
    with tl.open(URL) as theirs:
        rows = theirs.views[name].rows
        theirs["label"][rows] = truth[rows]
        theirs.commit(f"labels for {name}")


for number in range(3):
    labelled, pool = ds.where("label IS NOT NULL"), ds.where("label IS NULL")
    means = centres(labelled)
    right = 0
    for batch in pool.loader(batch_size=1000, columns=["image", "_row"]):
        flat = batch["image"].reshape(-1, 784).astype(np.float64)
        distance = (means**2).sum(axis=1) - 2 * flat @ means.T  # up to the image's own length
        nearest = np.sort(distance, axis=1)
        ds["margin"][batch["_row"]] = nearest[:, 1] - nearest[:, 0]
        right += int((distance.argmin(axis=1) == truth[batch["_row"]]).sum())
    ds.commit(f"margins of round {number}")
    print(f"round {number}: {len(labelled)} labels, {right / len(pool):.1%} of the others right")

    ask = ds.where("label IS NULL").order_by("margin").take(ASKED)
    ask.save(f"ask-{number}")
    people_answer(f"ask-{number}")
    for commit in ds.follow(timeout=60):  # wait for the annotators
        print(commit.message)
        break
    ds.refresh()
assert ds.where("label IS NOT NULL").count() == FIRST + 3 * ASKED
