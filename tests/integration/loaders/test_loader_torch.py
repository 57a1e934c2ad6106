"""Torch loaders: tensors without a copy, DataLoader workers, distributed ranks."""

from __future__ import annotations

import itertools
from itertools import islice

import numpy as np
import pytest

import tensorlake as tl
from tests.unit.loader.conftest import fill_pets

torch = pytest.importorskip("torch")

NAMES = itertools.count()
RESIZE = {"image": tl.decode.Resize(16, 20)}


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """In a folder, so worker processes can read it too."""
    with fill_pets(str(tmp_path_factory.mktemp("pets") / "pets.tl")) as dataset:
        yield dataset


def test_batches_are_dicts_of_tensors(pets):
    loader = pets.torch(batch_size=12, decode=RESIZE, collate={"score": "list"})

    batch = next(iter(loader))

    assert batch["image"].shape == (12, 16, 20, 3)
    assert batch["image"].dtype == torch.uint8
    assert batch["label"].dtype == torch.int64
    assert batch["tokens"].dtype == torch.uint16
    assert batch["name"][0] == "pet 0"
    assert isinstance(batch["boxes"][2], torch.Tensor)


def test_batches_have_no_numbers(pets):
    with pytest.raises(TypeError, match=r"loader\[0\]: a loader streams batches"):
        pets.torch(batch_size=4, columns=["label"])[0]


def test_tensors_share_the_memory_of_the_assembled_batch(pets):
    arrays = []
    loader = pets.torch(batch_size=60, columns=["tokens"])
    converter = loader._finish.converter

    class Watching:
        def __getattr__(self, name):
            return getattr(converter, name)

        def convert(self, batch):
            arrays.append(batch["tokens"])
            return converter.convert(batch)

    loader._finish.converter = Watching()
    (batch,) = loader

    assert batch["tokens"].data_ptr() == arrays[0].ctypes.data


def test_nchw_is_a_channels_last_view(pets):
    loader = pets.torch(batch_size=4, decode=RESIZE, columns=["image"], layout="NCHW")

    image = next(iter(loader))["image"]

    assert image.shape == (4, 3, 16, 20)
    assert image.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("framework", ["torch", "loader"])
def test_nchw_is_of_images_alone_stacked_or_listed(pets, framework):
    loader = getattr(pets, framework)(
        batch_size=4,
        columns=["image", "tokens"],
        decode={**RESIZE, "tokens": tl.decode.Cast("int64")},
        collate={"image": "list"},
        layout="NCHW",
    )

    batch = next(iter(loader))

    assert [tuple(one.shape) for one in batch["image"]] == [(3, 16, 20)] * 4
    assert batch["tokens"].ndim == 2


@pytest.mark.slow
def test_nested_tensors_hold_ragged_columns(pets):
    loader = pets.torch(batch_size=6, collate={"boxes": "nested"}, columns=["boxes"])

    boxes = next(iter(loader))["boxes"]

    assert boxes.is_nested
    assert [one.shape[0] for one in boxes.unbind()] == [0, 1, 2, 0, 1, 2]


def test_a_device_is_where_the_batch_arrives(pets):
    batch = next(iter(pets.torch(batch_size=4, columns=["label"], device="cpu")))

    assert batch["label"].device.type == "cpu"


def test_lists_of_arrays_arrive_on_the_device_too(pets):
    loader = pets.torch(batch_size=6, columns=["boxes", "name"], device="meta")

    batch = next(iter(loader))

    assert [one.device.type for one in batch["boxes"]] == ["meta"] * 6
    assert [tuple(one.shape) for one in batch["boxes"]] == [(n, 4) for n in (0, 1, 2, 0, 1, 2)]
    assert batch["name"][1] == "pet 1"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_equal_batches_while_it_computes(pets):
    plain = list(pets.torch(batch_size=6, shuffle=True, columns=["tokens", "_row"]))

    moved = []
    for batch in pets.torch(batch_size=6, shuffle=True, columns=["tokens", "_row"], device="cuda"):
        work = torch.randn(2048, 2048, device="cuda")
        for _ in range(20):  # kernels that are still queued when the next copy begins
            work = work @ work / 2048
        moved.append({name: value.clone() for name, value in batch.items()})

    for one, other in zip(plain, moved, strict=True):
        assert one["tokens"].equal(other["tokens"].cpu())
        assert one["_row"].equal(other["_row"].cpu())


@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_dataloader_workers_divide_the_batches_among_them(pets, workers):
    loader = pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])
    expected = [batch["_row"].tolist() for batch in loader]
    again = pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])

    stock = torch.utils.data.DataLoader(
        again,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    seen = [batch["_row"].tolist() for batch in stock]

    assert len(stock) == len(expected)
    assert sorted(seen) == sorted(expected)
    assert seen == expected  # worker i makes batches i, i + k, …, and they are asked in turn


@pytest.mark.slow
def test_dataloader_workers_that_are_spawned_make_the_loader_again(pets):
    again = pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])
    expected = [
        batch["_row"].tolist()
        for batch in pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])
    ]

    stock = torch.utils.data.DataLoader(
        again, batch_size=None, num_workers=1, multiprocessing_context="spawn"
    )

    assert [batch["_row"].tolist() for batch in stock] == expected
    assert again.epoch == 0


READ = {"batch_size": 7, "shuffle": True, "seed": 4, "columns": ["_row"]}


def rows_of(batches):
    return [batch["_row"].tolist() for batch in batches]


@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
def test_dataloader_workers_start_the_epoch_that_is_set(pets):
    loader, alone = pets.torch(**READ), pets.torch(**READ)
    stock = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=1, multiprocessing_context="fork"
    )

    for epoch in (1, 0):
        loader.set_epoch(epoch)
        alone.set_epoch(epoch)
        assert rows_of(stock) == rows_of(alone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
@pytest.mark.parametrize("persistent", [False, True])
def test_passes_of_dataloader_workers_are_successive_epochs(pets, persistent):
    """Drawn to the end, by exactly as many batches, left, with one seed again and again."""
    alone = pets.torch(**READ)
    expected = [rows_of(alone) for _ in range(6)]
    loader = pets.torch(**READ)
    stock = torch.utils.data.DataLoader(
        loader,
        batch_size=None,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=persistent,
    )

    found = []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(rows_of(stock))
    found.append(rows_of(islice(stock, len(stock))))
    assert found == expected[:3]
    assert rows_of(islice(stock, 3)) == expected[3][:3]
    assert rows_of(stock) == expected[4]
    if not persistent:
        assert rows_of(loader) == expected[5]  # the loader itself goes on after its workers
        assert rows_of(stock) == rows_of(alone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
@pytest.mark.parametrize(
    ("method", "persistent"),
    [("fork", True), ("fork", False), pytest.param("spawn", True, marks=pytest.mark.soak)],
)
def test_dataloader_workers_follow_their_parent(pets, method, persistent):
    """By set_epoch, a state, skip and a pass of its own, with plain passes in between."""
    alone = pets.torch(**READ)
    epochs = [rows_of(alone) for _ in range(8)]
    loader = pets.torch(**READ)
    stock = torch.utils.data.DataLoader(
        loader,
        batch_size=None,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    assert rows_of(stock) == epochs[0]

    for epoch in (5, 1, 3):
        loader.set_epoch(epoch)
        assert rows_of(stock) == epochs[epoch]
    assert rows_of(stock) == epochs[4]
    loader.set_epoch(2)
    assert rows_of(islice(stock, 3)) == epochs[2][:3]  # and leaves it
    assert rows_of(stock) == epochs[3]
    loader.set_epoch(2)
    loader.skip(4)
    assert rows_of(stock) == epochs[2][4:]
    assert rows_of(stock) == epochs[3]
    assert rows_of(loader) == epochs[4]
    assert rows_of(stock) == epochs[5]

    other = pets.torch(**READ)
    rows_of(islice(other, 2))
    loader.load_state_dict(other.state_dict())
    assert rows_of(stock) == epochs[0][2:]
    assert rows_of(stock) == epochs[1]


@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
def test_persistent_dataloader_workers_take_the_seed_of_a_state(pets):
    """The epoch that is set after it is of the order that the state brought."""
    given = READ | {"seed": None}
    alone = pets.torch(**READ)
    epochs = [rows_of(alone) for _ in range(4)]
    state = pets.torch(**READ).state_dict()
    loader = pets.torch(**given)
    stock = torch.utils.data.DataLoader(
        loader,
        batch_size=None,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    assert rows_of(stock) != epochs[0]

    loader.load_state_dict(state)
    for epoch in (1, 2, 3):
        loader.set_epoch(epoch)
    assert rows_of(stock) == epochs[3]
    loader.set_epoch(0)
    assert rows_of(stock) == epochs[0]


@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
def test_persistent_dataloader_workers_of_an_endless_mix_follow_their_parent(pets):
    mixed = tl.mix({"a": (pets[:20], 1.0), "b": (pets[20:], 1.0)}, stop="never")
    alone = mixed.torch(**READ)
    expected = rows_of(islice(alone, 6))
    loader = mixed.torch(**READ)
    stock = torch.utils.data.DataLoader(
        loader,
        batch_size=None,
        num_workers=1,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    assert rows_of(islice(stock, 2)) == expected[:2]

    for _ in range(2):
        loader.set_epoch(0)
        loader.skip(3)
        assert rows_of(islice(stock, 3)) == expected[3:]


@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
def test_dataloader_workers_read_beside_a_pass_of_their_parent(pets):
    alone = pets.torch(**READ)
    expected = [rows_of(alone) for _ in range(4)]
    loader = pets.torch(**READ, transform=dict)  # with threads, which are not in the workers
    stock = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    iterator = iter(loader)
    head = rows_of(islice(iterator, 2))

    assert rows_of(stock) == expected[1]
    assert rows_of(stock) == expected[2]
    assert head + rows_of(iterator) == expected[0]
    assert rows_of(loader) == expected[3]


class StatefulWorkers(torch.utils.data.IterableDataset):
    """What torchdata's StatefulDataLoader does in each worker: load its state, note it by batch."""

    def __init__(self, loader, states):
        self.loader, self.states = loader, states

    def __iter__(self):
        number = torch.utils.data.get_worker_info().id
        if number in self.states:
            self.loader.load_state_dict(self.states[number])
        for batch in self.loader:
            yield number, batch["_row"].tolist(), self.loader.state_dict()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # the test forks on purpose
@pytest.mark.parametrize("stop", range(1, 10))
def test_each_dataloader_worker_goes_on_from_its_own_state(pets, stop):
    """60 rows are 8 batches and a short one, which the workers make in turn."""

    def batches(states):
        loader = pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])
        workers = torch.utils.data.DataLoader(
            StatefulWorkers(loader, states),
            batch_size=None,
            num_workers=2,
            multiprocessing_context="fork",
        )
        return iter(workers)

    states, seen = {}, []
    for number, rows, state in islice(batches({}), stop):
        states[number] = state
        seen.append(rows)
    seen += [rows for _, rows, _ in batches(states)]

    expected = pets.torch(batch_size=7, shuffle=True, seed=4, columns=["_row"])
    assert sorted(seen) == sorted(batch["_row"].tolist() for batch in expected)


class Skipping(torch.utils.data.BatchSampler):
    """Accelerate's sampler of an epoch that was read in part."""

    def __init__(self, batch_sampler, skipped):
        self.batch_sampler, self.skipped = batch_sampler, skipped

    def __iter__(self):
        return islice(iter(self.batch_sampler), self.skipped, None)

    def __len__(self):
        return len(self.batch_sampler) - self.skipped


def test_a_dataloader_made_anew_of_a_loader_skips_batches_without_reading_them(pets):
    """As ``accelerate.skip_first_batches`` makes it, by which trainers go on."""
    alone = pets.torch(**READ)
    expected = [rows_of(alone) for _ in range(5)]
    loader = pets.torch(**READ)
    rest = torch.utils.data.DataLoader(
        loader.dataset,
        batch_sampler=Skipping(loader.batch_sampler, 6),
        collate_fn=loader.collate_fn,
    )

    rest.batch_sampler.batch_sampler.set_epoch(1)
    assert rows_of(rest) == expected[1][6:]
    assert (len(rest), loader.stats().rows) == (3, 2 * 7 + 4)
    assert rows_of(loader) == expected[2]
    assert rows_of(islice(rest, 1)) == expected[3][6:7]  # and leaves it
    assert rows_of(rest) == expected[4][6:]
    assert len(loader.dataset) == 60


def test_batches_by_number_come_in_order_alone(pets):
    batches = pets.torch(**READ).dataset
    batches[3]

    with pytest.raises(
        tl.InvalidInputError, match="batch 5 of a loader is requested, but the next one is 4"
    ):
        batches[5]


def test_map_style_reads_many_rows_at_once(pets):
    stock = torch.utils.data.DataLoader(pets[["tokens", "label"]], batch_size=16)

    batches = list(stock)

    assert [len(batch["label"]) for batch in batches] == [16, 16, 16, 12]
    assert batches[1]["tokens"][:, 0].tolist() == list(range(16, 32))


def test_map_style_rows_have_computed_columns_and_memory_of_their_own(pets):
    rows = pets.query("SELECT tokens, tokens[0] + 1 AS more").__getitems__([3, 1])

    rows[0]["tokens"][:] = 0

    assert [row["more"] for row in rows] == [4, 2]
    assert pets["tokens"][3][0] == 3


def test_resize_agrees_with_torchvisions_definition(pets):
    loader = pets.torch(batch_size=4, decode=RESIZE, columns=["image"])
    pixels = torch.from_numpy(np.ascontiguousarray(pets["image"][1])).permute(2, 0, 1)[None]

    image = next(iter(loader))["image"][1]

    expected = torch.nn.functional.interpolate(
        pixels, size=(16, 20), mode="bilinear", antialias=True
    )
    assert torch.equal(image.permute(2, 0, 1), expected[0])


@pytest.mark.parametrize("device", ["cuda:99", "tpuu", 3.5])
def test_a_device_that_is_not_here_is_refused_before_anything_is_read(pets, device):
    with pytest.raises(tl.InvalidInputError, match=r"^device=") as caught:
        pets.torch(batch_size=4, columns=["tokens"], device=device)

    assert caught.value.actual == device
