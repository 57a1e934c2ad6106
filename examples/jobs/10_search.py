"""Find passages by meaning, among those that meet a condition: exact, without an index.

The text is this repository's documentation, split at its headings. A passage's vector counts its
words by their hash; replace ``embed`` by a language model.
"""

import re
import zlib
from pathlib import Path

import numpy as np

import tensorlake as tl

DOCS = Path(__file__).resolve().parents[2] / "docs"
WIDTH = 256


def embed(texts: list[str]) -> np.ndarray:
    vectors = np.zeros((len(texts), WIDTH), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"[a-z]{4,}", text.lower()):
            vector[zlib.crc32(word.encode()) % WIDTH] += 1
    return np.sqrt(vectors)


# 1. Passages, with the columns for conditions.
ds = tl.create("memory://job10/passages", {"text": tl.Text(), "kind": "str", "page": "str"})
for page in sorted(DOCS.rglob("*.md")):
    passages = [one for one in page.read_text(encoding="utf-8").split("\n## ") if one.strip()]
    kind = page.relative_to(DOCS).parts[0]
    ds.extend(
        {"text": passages, "kind": [kind] * len(passages), "page": [page.stem] * len(passages)}
    )
ds.commit("passages of the documentation")

# 2. Fill missing vectors; the same call tomorrow embeds only new passages.
ds.map(
    lambda batch: {"vec": embed(batch["text"])},
    columns=["text"],
    schema={"vec": tl.Embedding(WIDTH, metric="cosine")},
    batch_size=256,
    where="vec IS NULL",
)
ds.commit("vectors")

# 3. The nearest passages that meet the condition. For the others, only their kind is read.
question = embed(["assign the labels that are wrong on a branch, and see what changed"])[0]
hits = ds.query(
    "SELECT text, page, COSINE_SIMILARITY(vec, $q) AS score"
    " WHERE kind = 'how-to' ORDER BY score DESC LIMIT 3",
    q=question,
)
for hit in hits:
    print(f"{hit['score']:.2f}  {hit['page']}: {hit['text'].splitlines()[0]}")

# The same by hand: the search is exact, so there is nothing to tune and nothing is missed.
vectors = ds.where("kind = 'how-to'")["vec"].read()
cosines = vectors @ question / np.linalg.norm(vectors, axis=1) / np.linalg.norm(question)
assert np.allclose(np.sort(cosines)[-3:][::-1], hits["score"][:])
