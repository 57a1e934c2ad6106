"""Folders of audio and their transcripts, and files exported again."""

import tarfile

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.sounds import sound_file

FILES = {
    "a.wav": sound_file("WAV", "PCM_16"),
    "b.flac": sound_file("FLAC", "PCM_16"),
    "c.ogg": sound_file("OGG", "VORBIS"),
    "d.opus": sound_file("OGG", "OPUS"),
    "e.mp3": sound_file("MP3", "MPEG_LAYER_III"),
}


@pytest.fixture
def folder(tmp_path):
    """A folder of audio with its transcripts beside."""
    (tmp_path / "clips").mkdir()
    for name, content in FILES.items():
        (tmp_path / "clips" / name).write_bytes(content)
    lines = [f"{name},word {name[0]}" for name in reversed(FILES)]
    (tmp_path / "clips" / "transcripts.csv").write_text("\n".join(["file,text", *lines]))
    return tmp_path / "clips"


@pytest.fixture
def dataset(folder, request):
    table = folder / "transcripts.csv"
    return tl.ingest.audio(folder, f"memory://{request.node.name}", table=table)


def test_a_folder_with_transcripts_is_ingested_as_it_is(dataset):
    assert dataset["text"].to_list() == [f"word {name[0]}" for name in FILES]
    assert [dataset["audio"].bytes(row) for row in range(5)] == list(FILES.values())
    assert [row["audio"].duration for row in dataset] == [4.0] * 5


def test_the_same_call_again_adds_what_is_new(folder):
    url, table = "memory://audio-again", folder / "transcripts.csv"
    tl.ingest.audio(folder, url, table=table)
    (folder / "f.flac").write_bytes(FILES["b.flac"])
    table.write_text(table.read_text() + "\nf.flac,word f")

    again = tl.ingest.audio(folder, url, table=table)

    assert (len(again), again.ingest_report.added) == (6, 1)


def test_folders_are_classes(tmp_path):
    for speaker in ("anna", "ben"):
        (tmp_path / "train" / speaker).mkdir(parents=True)
        (tmp_path / "train" / speaker / "1.wav").write_bytes(FILES["a.wav"])

    ds = tl.ingest.audio(tmp_path, "memory://speakers")

    assert ds["label"][:].as_names() == ["anna", "ben"]


def test_a_cut_file_is_named_and_may_be_left_out(folder):
    (folder / "e.mp3").write_bytes(FILES["e.mp3"][:-7])
    table = folder / "transcripts.csv"

    with pytest.raises(InvalidInputError, match=r"e\.mp3.*not a whole MP3 file"):
        tl.ingest.audio(folder, "memory://cut", table=table)
    kept = tl.ingest.audio(folder, "memory://cut-skip", table=table, on_error="skip")
    assert len(kept) == 4


def test_a_webdataset_has_the_files_and_comes_back(dataset, tmp_path):
    dataset.to_webdataset(str(tmp_path / "shards"))
    (shard,) = (tmp_path / "shards").glob("*.tar")

    with tarfile.open(shard) as opened:
        names = [name for name in opened.getnames() if not name.endswith(".text")]
        stored = [opened.extractfile(name).read() for name in names]
    back = tl.ingest.webdataset(str(shard), "memory://audio-back")

    assert [name.rpartition(".")[2] for name in names] == ["wav", "flac", "ogg", "ogg", "mp3"]
    assert stored == list(FILES.values())
    assert [back["audio"].bytes(row) for row in range(5)] == stored
    assert isinstance(back["audio"].type, tl.Audio)


def test_parquet_and_arrow_come_back(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "audio.parquet")

    for back in (
        tl.ingest.parquet(tmp_path / "audio.parquet", "memory://audio-parquet"),
        tl.ingest.arrow(dataset.to_arrow(), "memory://audio-arrow"),
    ):
        assert [back["audio"].bytes(row) for row in range(5)] == list(FILES.values())
        assert isinstance(back["audio"].type, tl.Audio)
        assert back["audio"][1, 100:110].shape == (10, 1)


def test_hugging_face_takes_and_gives_its_audio_feature(dataset):
    datasets = pytest.importorskip("datasets")
    given = dataset.to_hf()

    back = tl.ingest.huggingface(given, "memory://audio-hf")

    assert isinstance(given.features["audio"], datasets.Audio)
    assert [back["audio"].bytes(row) for row in range(5)] == list(FILES.values())


def test_mds_has_the_bytes(dataset, tmp_path):
    dataset.to_mds(tmp_path / "mds")

    assert any((tmp_path / "mds").iterdir())


def test_nothing_else_is_lost_in_numpy(dataset):
    assert dataset.to_numpy(columns=["text"])["text"].tolist() == dataset["text"].to_list()
    assert np.asarray(dataset[1]["audio"]).shape == (64_000, 1)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "\r\nfile,text\r\n"])
def test_an_empty_table_is_named_with_what_to_do(folder, text):
    (folder / "none.csv").write_bytes(text.encode())

    with pytest.raises(InvalidInputError, match=r"none\.csv' names no columns.*\nwrite their"):
        tl.ingest.audio(folder, f"memory://audio-no-table-{len(text)}", table=folder / "none.csv")


def test_names_rates_and_channels_of_files_may_differ(tmp_path):
    files = {
        "日本/ü ñ.flac": sound_file("FLAC", "PCM_16", rate=44_100, channels=2, seconds=0.5),
        "a b.wav": sound_file("WAV", "PCM_16", rate=8_000, seconds=0.5),
        "none.wav": sound_file("WAV", "PCM_16", seconds=0),
    }
    for name, content in files.items():
        (tmp_path / "clips" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clips" / name).write_bytes(content)
    rows = ['日本/ü ñ.flac,"said ""ü"", twice"', "a b.wav,", "none.wav,nothing"]
    (tmp_path / "t.csv").write_text("\n".join(["file,text", *rows]), encoding="utf-8")

    ds = tl.ingest.audio(
        tmp_path / "clips", f"memory://{tmp_path.name}", table=tmp_path / "t.csv", labels=False
    )

    found = {row["text"]: (row["audio"].rate, row["audio"].shape) for row in ds}
    assert found['said "ü", twice'] == (44_100, (22_050, 2))
    assert found["nothing"] == (16_000, (0, 1))
    steps = [tl.decode.AudioChunk(0.25), tl.decode.Resample(16_000), tl.decode.Mel(8)]
    (batch,) = ds.loader(batch_size=3, decode={"audio": steps}, collate={"audio": "pad"})
    assert batch["audio"].shape == (3, 26, 8)
