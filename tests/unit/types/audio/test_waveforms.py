"""Samples of `tl.Audio` in a dataset: what rows give, what is read, what is refused."""

import io
import pathlib
import pickle

import numpy as np
import pytest
import soundfile
import torch

import tensorlake as tl
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
)
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import Waveform
from tests.support.handles import create_on, open_on, reopened, wait_for_storage
from tests.support.sounds import silent_flac, sound_file, tone

FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "vorbis": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
FILES = {name: sound_file(*kind) for name, kind in FORMATS.items()}


def whole(content: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)[0]


@pytest.fixture(scope="module")
def dataset():
    made = create_on(MemoryStore(), {"audio": tl.Audio(nullable=True), "name": "str"})
    made.extend({"audio": [*FILES.values(), None], "name": [*FILES, "none"]})
    made.commit()
    return reopened(made)


def test_a_row_gives_a_waveform_that_is_not_decoded(dataset):
    waveform = dataset[0]["audio"]

    assert isinstance(waveform, Waveform)
    assert (waveform.rate, waveform.channels, waveform.frames) == (16_000, 1, 64_000)
    assert (waveform.duration, waveform.shape, len(waveform)) == (4.0, (64_000, 1), 64_000)
    assert "4 s · 16,000 Hz · 1 channel · pcm" in repr(waveform)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_the_sample_and_is_decoded_as_soundfile_does(dataset, name):
    row = list(FORMATS).index(name)
    waveform, expected = dataset[row]["audio"], whole(FILES[name])

    assert waveform.content == FILES[name]
    assert waveform.codec == {"wav": "pcm"}.get(name, name)
    assert np.asarray(waveform).dtype == np.float32
    assert np.abs(np.asarray(waveform) - expected).max() <= 5e-7
    assert np.abs(waveform[20_000:30_000] - expected[20_000:30_000]).max() <= 1e-6
    assert np.abs(waveform.seconds[1.0:2.5] - expected[16_000:40_000]).max() <= 1e-6


def test_regions_are_those_of_numpy(dataset):
    waveform, expected = dataset[1]["audio"], whole(FILES["flac"])
    regions = [
        *(np.s_[5], np.s_[-5], np.s_[:], np.s_[...], np.s_[10:10], np.s_[100:50]),
        *(np.s_[10:5000:7], np.s_[5000:10:-7], np.s_[::-1], np.s_[-100:]),
        *(np.s_[10:20, 0], np.s_[5, 0], np.s_[..., 0], np.s_[10:20, ::-1]),
    ]

    for region in regions:
        assert np.array_equal(waveform[region], expected[region]), region
    assert np.array_equal(dataset["audio"][1, 100:200], expected[100:200])
    assert np.array_equal(waveform.seconds[-0.5:], expected[-8_000:])


@pytest.mark.parametrize(
    "region",
    [
        *(np.s_[64_000], np.s_["a"], np.s_[1.5], np.s_[0:5, 3]),
        *(np.ones(64_000, np.bool_), np.array([1, 2])),
    ],
)
def test_a_region_that_is_not_there_is_refused(dataset, region):
    with pytest.raises(InvalidInputError, match="row 0 of 'audio'"):
        dataset[0]["audio"][region]


@pytest.mark.parametrize("span", [np.s_[1.0], np.s_[0:1:2], np.s_["a":]])
def test_seconds_take_a_slice_of_numbers(dataset, span):
    with pytest.raises(InvalidInputError, match="seconds"):
        dataset[0]["audio"].seconds[span]


def test_null_is_none(dataset):
    assert dataset[5]["audio"] is None
    assert dataset["audio"][5, 0:10] is None


def test_a_pickled_waveform_holds_its_bytes(dataset):
    waveform = pickle.loads(pickle.dumps(dataset[1]["audio"]))

    assert np.array_equal(waveform[5:10], whole(FILES["flac"])[5:10])


def test_queries_see_frames_and_channels(dataset):
    found = dataset.query(
        "SELECT name, SHAPE(audio)[0] / 16000 AS s FROM this WHERE SHAPE(audio)[1] = 1"
    )

    assert list(found["name"][:]) == list(FORMATS)
    assert found["s"][:].tolist() == [4.0] * 5


@pytest.mark.parametrize("name", ["wav", "flac", "vorbis", "mp3"])
def test_a_window_costs_two_round_trips_and_its_share(name):
    store = CountingStore(MemoryStore())
    content = sound_file(*FORMATS[name], rate=44_100, channels=2, seconds=20)
    made = create_on(store, {"audio": tl.Audio()})
    made.append({"audio": content})
    made.commit()
    wait_for_storage()
    dataset = open_on(store)
    dataset["audio"].shape  # noqa: B018 - reads what opening reads
    store.reset()

    window = dataset["audio"][0, 10 * 44_100 : 12 * 44_100]

    assert window.shape == (2 * 44_100, 2)
    assert store.round_trips <= 2
    assert store.bytes_read <= 1.6 * len(content) / 10 + 8_000  # the header has the map


def test_samples_may_be_paths_files_arrays_and_pairs(tmp_path: pathlib.Path):
    path = tmp_path / "a.wav"
    path.write_bytes(FILES["wav"])
    integers = (tone(1_000) * 20_000).astype(np.int16)
    floats = tone(1_000, 2)
    ds = create_on(MemoryStore(), {"audio": tl.Audio()})

    ds.extend(
        {
            "audio": [
                *(str(path), path, FILES["wav"], io.BytesIO(FILES["wav"])),
                *({"samples": integers, "rate": 8_000}, {"samples": integers[:, 0], "rate": 8_000}),
                *((floats, 48_000), soundfile.read(path, dtype="int16")),
                {"samples": torch.from_numpy(floats), "rate": 48_000},
            ]
        }
    )

    assert [ds[row]["audio"].content for row in range(4)] == [FILES["wav"]] * 4
    assert [ds[row]["audio"].codec for row in (4, 6)] == ["flac", "float"]
    assert np.array_equal(np.asarray(ds[4]["audio"]), integers / np.float32(32_768))
    assert np.array_equal(np.asarray(ds[5]["audio"]), integers / np.float32(32_768))
    assert np.array_equal(np.asarray(ds[6]["audio"]), floats)
    assert np.array_equal(np.asarray(ds[7]["audio"]), whole(FILES["wav"]))
    assert np.array_equal(np.asarray(ds[8]["audio"]), floats)


def test_a_waveform_is_stored_as_its_file(dataset):
    ds = create_on(MemoryStore(), {"audio": tl.Audio()})

    ds.extend({"audio": [dataset[row]["audio"] for row in range(5)]})

    assert [ds["audio"].bytes(row) for row in range(5)] == list(FILES.values())


def test_a_declared_rate_is_that_of_arrays_and_of_files():
    ds = create_on(MemoryStore(), {"audio": tl.Audio(rate=16_000, channels=1)})

    ds.append({"audio": tone(100)})
    ds.append({"audio": FILES["mp3"]})

    assert ds[0]["audio"].rate == 16_000
    assert ds["audio"].shape == (2, None, 1)
    with pytest.raises(DTypeMismatchError, match="8,000 Hz"):
        ds.append({"audio": (tone(100), 8_000)})
    with pytest.raises(DTypeMismatchError, match="2 channels"):
        ds.append({"audio": tone(100, 2)})


REFUSED = {
    "no rate": (tone(100), DTypeMismatchError, "give its rate"),
    "a mapping without it": ({"samples": tone(100)}, DTypeMismatchError, "the keys"),
    "rate 0": ((tone(100), 0), InvalidInputError, "rate must be an integer"),
    "int64": ((tone(100).astype(np.int64), 8_000), DTypeMismatchError, "give uint8, int16"),
    "bool": ((tone(100).astype(bool), 8_000), DTypeMismatchError, "give uint8, int16"),
    "channels first": ((np.zeros((2, 100)), 8_000), ShapeMismatchError, "samples.T"),
    "three axes": ((np.zeros((2, 3, 4)), 8_000), ShapeMismatchError, r"\(2, 3, 4\)"),
    "empty": (b"", InvalidInputError, "not WAV, FLAC, Ogg or MP3"),
    "an image": (b"\x89PNG\r\n\x1a\n", InvalidInputError, "ffmpeg"),
    "cut": (FILES["flac"][:-10], InvalidInputError, "not a whole FLAC file"),
    "a bomb": (silent_flac(1_024), InvalidInputError, "promise 2.15 GB of samples"),
    "no file": ("missing.wav", InvalidInputError, "cannot read the file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_samples_are_refused(name):
    sample, error, message = REFUSED[name]
    ds = create_on(MemoryStore(), {"audio": tl.Audio()})

    with pytest.raises(error, match=message):
        ds.append({"audio": sample})
    assert len(ds) == 0


def test_a_schema_may_accept_files_that_expand_further():
    ds = create_on(MemoryStore(), {"audio": tl.Audio(max_nbytes=4 << 30)})

    ds.append({"audio": silent_flac(1_024)})

    assert ds[0]["audio"][-100:].shape == (100, 8)


@pytest.mark.parametrize(
    "given", [{"rate": 0}, {"rate": "16k"}, {"channels": 65}, {"max_nbytes": 0}]
)
def test_other_parameters_are_refused(given):
    with pytest.raises(SchemaError):
        tl.Audio(**given)


def test_a_copy_a_merge_and_a_compaction_keep_parts_readable():
    store = MemoryStore()
    made = create_on(store, {"audio": tl.Audio(), "n": "int64"})
    for number, content in enumerate(FILES.values()):
        made.append({"audio": content, "n": number})
        made.commit()
    made.optimize()
    dataset = reopened(made)

    found = [dataset[row]["audio"][30_000:31_000] for row in range(5)]

    for window, content in zip(found, FILES.values(), strict=True):
        assert np.abs(window - whole(content)[30_000:31_000]).max() <= 1e-6
    assert dataset.check(decode=True).ok
