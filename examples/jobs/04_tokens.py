"""Language-model data: JSON lines → tokens in rows of one length → a weighted mix, resumed exactly.

The text is this repository's: pages of its documentation and files of its source, as bytes. A
tokenizer has its place in ``encode``; two bytes a token hold vocabularies up to 65,536.
"""

import json
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np

import tensorlake as tl
from tensorlake.loader import Loader

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 256
END_OF_TEXT = 256


def encode(text: str) -> np.ndarray:
    return np.append(np.frombuffer(text.encode(), np.uint8).astype(np.uint16), END_OF_TEXT)


def tokens_of(name: str, files: list[Path]) -> tl.Dataset:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / f"{name}.jsonl"
        documents = (json.dumps({"text": file.read_text(encoding="utf-8")}) for file in files)
        lines.write_text("\n".join(documents), encoding="utf-8")
        text = tl.ingest.jsonl(lines, f"memory://job4/{name}", schema={"text": tl.Text()})
    stream = np.concatenate([encode(one) for one in text["text"]])
    packed = stream[: len(stream) // CONTEXT * CONTEXT].reshape(-1, CONTEXT)
    ds = tl.create(f"memory://job4/{name}-tokens", {"tokens": tl.Array("uint16", (CONTEXT,))})
    ds.extend({"tokens": packed})
    ds.commit(f"bytes of {len(text)} documents")
    return ds


prose = tokens_of("prose", sorted((ROOT / "docs").rglob("*.md")))
code = tokens_of("code", sorted((ROOT / "tensorlake" / "loader").glob("*.py")))

mix = tl.mix({"prose": (prose, 0.7), "code": (code, 0.3)}, stop="never")
print(mix)


def stream() -> Loader:
    return mix.torch(
        batch_size=50, shuffle=True, seed=1, decode={"tokens": tl.decode.Cast("int64")}
    )


# Train for 20 steps; the state names both sources' versions, and how far each has got.
train = stream()
taken = [int(batch["_source"].sum()) for batch in islice(train, 20)]
state = train.state_dict()
print(f"{sum(taken)} of 1,000 rows were code; the state is {len(json.dumps(state))} bytes")

# What the uninterrupted run sees next is what a resumed one sees, to the byte.
uninterrupted = next(iter(train))
resumed = stream()
resumed.load_state_dict(state)
batch = next(iter(resumed))
assert batch["tokens"].equal(uninterrupted["tokens"])
x, y = batch["tokens"][:, :-1], batch["tokens"][:, 1:]
print(f"inputs {tuple(x.shape)} and targets {tuple(y.shape)} of {x.dtype}")
