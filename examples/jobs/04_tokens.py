"""Language-model data: JSON lines → tokens → packed sequences of a weighted mix, resumed exactly.

The text is that of this repository: pages of its documentation and files of its source, as bytes.
Replace ``encode`` by the tokenizer of another library; two bytes per token allow vocabularies of up
to 65,536.
"""

import json
import tempfile
from itertools import islice
from pathlib import Path

import tensorlake as tl
from tensorlake.loader import Loader

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 256
END_OF_TEXT = 256


def encode(texts: list[str]) -> list[list[int]]:
    return [[*text.encode()] for text in texts]


def tokens_of(name: str, files: list[Path]) -> tl.Dataset:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / f"{name}.jsonl"
        rows = (json.dumps({"text": file.read_text(encoding="utf-8")}) for file in files)
        lines.write_text("\n".join(rows), encoding="utf-8")
        schema = {"tokens": tl.Array("uint16", (None,))}
        return tl.ingest.jsonl(lines, f"memory://job4/{name}", schema=schema, tokenizer=encode)


prose = tokens_of("prose", sorted((ROOT / "docs").rglob("*.md")))
code = tokens_of("code", sorted((ROOT / "tensorlake" / "loader").rglob("*.py")))

mix = tl.mix({"prose": (prose, 0.7), "code": (code, 0.3)}, by="tokens", stop="never")
packed = mix.pack("tokens", CONTEXT + 1, eos=END_OF_TEXT)
print(packed)


def stream() -> Loader:
    cast = {"tokens": tl.decode.Cast("int64")}
    return packed.torch(batch_size=50, shuffle=True, seed=1, decode=cast)


# Train for 20 steps; the state records the versions of both sources and their progress.
train = stream()
taken = [int(batch["_source"].sum()) for batch in islice(train, 20)]
state = train.state_dict()
print(f"{sum(taken)} of 1,000 sequences were code; the state is {len(json.dumps(state))} bytes")

# A resumed run sees the same next batch as the uninterrupted one, to the byte.
uninterrupted = next(iter(train))
resumed = stream()
resumed.load_state_dict(state)
batch = next(iter(resumed))
assert batch["tokens"].equal(uninterrupted["tokens"])
x, y = batch["tokens"][:, :-1], batch["tokens"][:, 1:]
print(f"inputs {tuple(x.shape)} and targets {tuple(y.shape)} of {x.dtype}")
