"""Chunks of audio in batches: their parts, their numbers, and the state that resumes them."""

import numpy as np
import pytest
import torch

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import Known, parse_steps, step_from_json
from tensorlake.loader.decode.sound.resampling import Ratio
from tensorlake.loader.decode.sound.steps import SoundSteps
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import MemorySample, read_request
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.sounds import sound_file

RATE = 16_000
KINDS = [("FLAC", "PCM_16", 44_100), ("MP3", "MPEG_LAYER_III", 44_100), ("WAV", "PCM_16", 8_000)]
JOB_16 = [tl.decode.Resample(RATE), tl.decode.AudioChunk(2.0), tl.decode.Mel(40)]


def speech(store, count=9):
    """Make a dataset of samples of different formats, rates and lengths."""
    made = create_on(store, {"audio": tl.Audio(), "text": "str"})
    for row in range(count):
        form, subtype, rate = KINDS[row % 3]
        content = sound_file(form, subtype, rate=rate, seconds=1 + row / 2)
        made.append({"audio": content, "text": f"word {row}"})
    made.commit()
    wait_for_storage()
    return open_on(store)


@pytest.fixture(scope="module")
def dataset():
    return speech(MemoryStore())


def equal(one, other):
    return all(
        torch.equal(one[name], other[name])
        if torch.is_tensor(one[name])
        else one[name] == other[name]
        for name in one
    )


def test_a_chunk_equals_that_of_the_whole_sample_resampled(dataset):
    for row in range(3):
        waveform = dataset[row + 3]["audio"]
        source = MemorySample(waveform.content, waveform.map, waveform.shape)
        whole, ratio = np.asarray(waveform), Ratio.of(waveform.rate, RATE)
        resampled = ratio.resample(whole, 0, 0, ratio.length(len(whole)))
        for start in (0.0, 0.5, 1.37):
            chunk = tl.decode.AudioChunk(1.0, start=start)
            steps = SoundSteps.of("audio", [chunk, tl.decode.Resample(RATE)])

            sample = Known(waveform.type, waveform.map, None)
            request = steps.request(sample, np.random.default_rng(), {})
            decoded = read_request(waveform.type, source, request)
            made = steps.finish(decoded, request, waveform.map)

            first = round(start * RATE)
            assert np.abs(made - resampled[first : first + RATE]).max() < 2e-6


def test_batches_are_padded_by_length_and_resume_exactly(dataset):
    def loader():
        return dataset.torch(
            batch_size=3, shuffle=True, seed=5, decode={"audio": JOB_16}, collate={"audio": "pad"}
        )

    whole = list(loader())
    first = loader()
    iterator = iter(first)
    next(iterator)
    resumed = loader()
    resumed.load_state_dict(first.state_dict())

    rest = list(resumed)

    assert [batch["audio"].shape[2] for batch in whole] == [40] * 3
    assert all(batch["audio"].dtype == torch.float32 for batch in whole)
    lengths = sorted(int(n) for batch in whole for n in batch["audio_mask"].sum(dim=1))
    assert lengths == [101, 151, *[201] * 7]  # 10 ms each, at most 2 s
    assert len(rest) == 2
    assert all(map(equal, rest, whole[1:]))


def test_another_epoch_has_other_chunks(dataset):
    loader = dataset.torch(batch_size=9, decode={"audio": JOB_16}, collate={"audio": "pad"})

    one, other = next(iter(loader)), next(iter(loader))

    assert one["text"] == other["text"]
    assert not torch.equal(one["audio"], other["audio"])


def test_padded_chunks_have_one_shape(dataset):
    chunk = tl.decode.AudioChunk(3.0, start="center", short="pad")
    view = dataset.query("SELECT audio WHERE SHAPE(audio)[1] = 1")
    mono = create_on(MemoryStore(), {"audio": tl.Audio(channels=1, rate=8_000)})
    mono.extend({"audio": [view[row]["audio"].content for row in (2, 5, 8)]})
    mono.commit()

    (batch,) = mono.torch(batch_size=3, decode={"audio": chunk})

    assert batch["audio"].shape == (3, 24_000, 1)
    assert not batch["audio"][0, 16_000:].any()  # 2 s of sound, then silence
    strict = tl.decode.AudioChunk(2.5, short="error")
    with pytest.raises(tl.InvalidInputError, match=r"does not fit(.|\n)*SHAPE\(\"audio\"\)\[0\]"):
        list(mono.torch(batch_size=1, decode={"audio": strict}))
    fitting = mono.query('WHERE SHAPE("audio")[0] >= 20000')  # as the error says
    for batch in fitting.torch(batch_size=1, decode={"audio": strict}):
        assert batch["audio"].shape == (1, 20_000, 1)


def test_only_the_packets_of_chunks_are_read():
    store = CountingStore(MemoryStore())
    made = create_on(store, {"audio": tl.Audio()})
    content = sound_file("FLAC", "PCM_16", rate=44_100, seconds=40)
    made.extend({"audio": [content] * 4})
    made.commit()
    wait_for_storage()
    loader = open_on(store).torch(
        batch_size=2, decode={"audio": tl.decode.AudioChunk(2.0)}, collate={"audio": "list"}
    )
    store.reset()

    batches = list(loader)

    assert [tuple(one.shape) for batch in batches for one in batch["audio"]] == [(88_200, 1)] * 4
    assert store.bytes_read < 4 * len(content) / 20 * 1.6 + 20_000


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([tl.decode.Mel(80), tl.decode.AudioChunk(1.0)], "comes after Mel"),
        ([tl.decode.AudioChunk(1.0), tl.decode.AudioChunk(2.0)], "there twice"),
        ([tl.decode.ToFloat(), tl.decode.Mel(80)], "put the steps of audio first"),
    ],
)
def test_steps_out_of_order_are_refused(steps, message):
    with pytest.raises(InvalidInputError, match=message):
        parse_steps("audio", steps)


def test_steps_are_for_audio_alone(dataset):
    images = create_on(MemoryStore(), {"image": tl.Array("uint8", (64, 64), tiles=(32, 32))})

    with pytest.raises(InvalidInputError, match=r"is for tl\.Audio"):
        images.torch(batch_size=1, decode={"image": tl.decode.AudioChunk(1.0)})
    with pytest.raises(InvalidInputError, match="bands up to 9000 Hz"):
        dataset.torch(
            batch_size=1, decode={"audio": [tl.decode.Resample(16_000), tl.decode.Mel(high_hz=9e3)]}
        )


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: tl.decode.AudioChunk(0), lambda: tl.decode.AudioChunk("8")),
        *(
            lambda: tl.decode.AudioChunk(1, start="end"),
            lambda: tl.decode.AudioChunk(1, short="cut"),
        ),
        *(lambda: tl.decode.Resample(0), lambda: tl.decode.Resample(16e3 + 0.5)),
        *(lambda: tl.decode.Mel(0), lambda: tl.decode.Mel(scale="bark")),
        *(lambda: tl.decode.Mel(low_hz=500, high_hz=400), lambda: tl.decode.Mel(log="yes")),
        *(lambda: tl.decode.Mel(low_hz=10**400), lambda: tl.decode.Mel(scale=np.arange(2))),
        lambda: tl.decode.AudioChunk(10**400),
    ],
)
def test_other_arguments_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()


def test_steps_survive_json():
    spec = parse_steps("audio", [*JOB_16, tl.decode.Normalize((0.5,), (2.0,))])

    again = parse_steps("audio", [step_from_json(one) for one in spec.to_json()])

    assert again == spec
    assert [one["step"] for one in spec.to_json()] == ["Resample", "AudioChunk", "Mel", "Normalize"]


@pytest.mark.parametrize("steps", [JOB_16, JOB_16[:2], [tl.decode.AudioChunk(0.5)]])
def test_a_sample_without_frames_is_a_batch_row_without_frames(steps):
    ds = tl.create(f"memory://sound-steps-empty-{len(steps)}", {"audio": tl.Audio()})
    for seconds in (0, 1):
        ds.append({"audio": sound_file("WAV", "PCM_16", seconds=seconds)})
    ds.commit()

    (batch,) = ds.loader(batch_size=2, decode={"audio": steps}, collate={"audio": "pad"})

    frames = batch["audio_mask"].sum(axis=1)
    assert frames[0] == 0
    assert frames[1] == batch["audio"].shape[1] > 0
