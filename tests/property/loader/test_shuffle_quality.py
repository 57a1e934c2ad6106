"""How good the windowed shuffle is, beside the full one, on rows that lie sorted by class.

Sorted rows are the worst case: a shuffle that mixes too little trains on one class at a time. The
window is as `shuffle="window"` chooses it for rows of 32 KiB: 410 blocks of 10 rows.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tensorlake.loader.plan.order import Order, choose_order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan

MNIST = Path(__file__).parents[3] / "examples" / "data" / "mnist"
WINDOW = choose_order("window", num_rows=1, row_nbytes=32 << 10)
ROWS, CLASSES, BATCH = 100_000, 10, 64
EPOCHS, SEEDS = 6, 4


def positions_of(order, rows=ROWS, seed=0, epoch=0):
    return build_access_plan(PlanKey("any", order, seed, epoch), rows).positions(0, rows)


def classes_of_batches(order, seed=0):
    """The classes of each whole batch, where the rows lie sorted by ten classes of equal size."""
    classes = positions_of(order, seed=seed) * CLASSES // ROWS
    return classes[: ROWS // BATCH * BATCH].reshape(-1, BATCH)


def test_the_window_is_the_one_that_is_chosen():
    assert Order("window", 10, 410) == WINDOW


@pytest.mark.parametrize("order", [Order("full"), WINDOW])
@pytest.mark.parametrize("lag", [1, 7, 64])
def test_neighbours_in_an_epoch_are_not_neighbours_in_the_selection(order, lag):
    positions = positions_of(order)

    correlation = np.corrcoef(positions[:-lag], positions[lag:])[0, 1]

    # A window holds 410 of 10,000 blocks: their mean differs from window to window, which
    # correlates what shares a window.
    assert abs(correlation) < (0.01 if order.kind == "full" else 0.03)


def test_batches_of_a_window_mix_the_classes_nearly_as_a_full_shuffle_does():
    def distance_from_even(order):
        batches = classes_of_batches(order)
        counts = np.stack([(batches == one).sum(axis=1) for one in range(CLASSES)])
        return float(np.abs(counts / BATCH - 1 / CLASSES).sum(axis=0).mean()) / 2

    full, window = distance_from_even(Order("full")), distance_from_even(WINDOW)

    assert full < 0.2  # what chance alone makes of 64 rows: 0.15
    # The 410 blocks of a window are a draw of classes as well, larger than a batch's.
    assert window < 1.15 * full


def test_every_batch_of_a_window_has_nearly_all_classes():
    seen = [len(np.unique(batch)) for batch in classes_of_batches(WINDOW)]

    assert np.mean(seen) > 9.7
    assert min(seen) >= 6


@pytest.mark.slow
def test_rows_of_110_kb_stored_by_class_mix_nearly_as_in_a_full_shuffle():
    rows, classes, batch = 1_280_000, 1000, 256
    order = choose_order("window", num_rows=rows, row_nbytes=110_000)

    def classes_in_batches(order):
        positions = positions_of(order, rows)
        batches = (positions * classes // rows).reshape(-1, batch)[::10]
        return np.mean([len(np.unique(one)) for one in batches])

    before, windowed, full = map(
        classes_in_batches, (Order("window", 19, 63, version=1), order, Order("full"))
    )

    assert before == pytest.approx(68, abs=1)
    assert windowed == pytest.approx(216, abs=1)
    assert full == pytest.approx(226, abs=1)


def test_windows_of_an_epoch_are_permuted_unlike_each_other():
    block, window, windows = 4, 100, 500
    span = block * window
    plan = build_access_plan(PlanKey("any", Order("window", block, window), 3, 0), span * windows)
    slots, offsets = plan.blocks_of(np.arange(span * windows))
    inside = (slots % window * block + offsets).reshape(windows, span)

    firsts = np.bincount(inside[:, 0] * 20 // span, minlength=20)  # of each window, in 20 parts
    expected = windows / 20
    neighbours = [np.corrcoef(inside[at], inside[at + 1])[0, 1] for at in range(windows - 1)]

    assert np.array_equal(np.sort(inside, axis=1), np.tile(np.arange(span), (windows, 1)))
    assert ((firsts - expected) ** 2 / expected).sum() < 44  # chi-square, 19 degrees: p < 0.001
    assert abs(np.mean(neighbours)) < 4 / (span * windows) ** 0.5
    assert np.std(neighbours) == pytest.approx(span**-0.5, rel=0.15)


def test_two_epochs_share_hardly_any_batch_mates():
    def mates(epoch):
        batches = positions_of(WINDOW, epoch=epoch)[: ROWS // BATCH * BATCH].reshape(-1, BATCH)
        batch_of = np.empty(ROWS, dtype=np.int64)
        batch_of[batches] = np.arange(len(batches))[:, None]
        return batch_of

    first, second = mates(0), mates(1)
    pairs = np.random.default_rng(0).integers(0, ROWS, (200_000, 2))
    near = pairs[first[pairs[:, 0]] == first[pairs[:, 1]]]

    again = np.mean(second[near[:, 0]] == second[near[:, 1]])

    assert len(near) > 50
    assert again < 0.1


# ---- what it does to a model


def digits():
    """MNIST's 10,000 test digits: 8,000 to learn from, sorted by class, the rest to ask."""
    with gzip.open(next(MNIST.glob("*images*.gz"))) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784) / np.float32(255)
    with gzip.open(next(MNIST.glob("*labels*.gz"))) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    chosen = np.random.default_rng(0).permutation(len(labels))
    learn, ask = chosen[:8000], chosen[8000:]
    learn = learn[np.argsort(labels[learn], kind="stable")]
    return pixels[learn], labels[learn], pixels[ask], labels[ask]


def accuracy(order, seed, data):
    torch = pytest.importorskip("torch")
    pixels, labels, asked, answers = (torch.from_numpy(one.copy()) for one in data)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the model is too small for more
    model = torch.nn.Sequential(torch.nn.Linear(784, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        positions = torch.from_numpy(positions_of(order, len(labels), seed, epoch))
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - epoch / EPOCHS)
        for rows in positions.split(BATCH):
            loss = torch.nn.functional.cross_entropy(model(pixels[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return 100 * (model(asked).argmax(1) == answers).float().mean().item()


@pytest.mark.soak
def test_a_model_trained_by_windows_is_within_half_a_point_of_one_trained_by_full_shuffles():
    data = digits()
    window = Order("window", 8, 64)  # the same share of the rows as 128 MiB of 2 GiB

    full, windowed = (
        [accuracy(order, seed, data) for seed in range(SEEDS)] for order in (Order("full"), window)
    )

    assert np.mean(full) > 94
    assert abs(np.mean(full) - np.mean(windowed)) <= 0.5, (full, windowed)
