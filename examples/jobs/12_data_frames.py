"""pandas and Arrow: aggregate in TQL, continue in a DataFrame, write back by row, join.

A query reads the columns it names and never the pixels; a DataFrame's index is the row number, so
results can be written back.
"""

from pathlib import Path

import pandas as pd

import tensorlake as tl

COCO = Path(__file__).resolve().parents[1] / "data" / "coco"

ds = tl.ingest.coco(COCO / "instances.json", COCO / "images", "memory://job12/coco")

# 1. Aggregate in the query; only small results are returned.
sizes = ds.query(
    "SELECT SHAPE(image)[0] AS height, COUNT(*) AS images, AVG(LENGTH(boxes)) AS boxes"
    " GROUP BY SHAPE(image)[0] ORDER BY images DESC LIMIT 3"
).to_pandas()
print(sizes)

# 2. Export, compute in pandas, and write back by row number.
frame = ds.query("SELECT image_id, LENGTH(boxes) AS boxes, SHAPE(image)[1] AS width").to_pandas()
frame["crowded"] = frame["boxes"] / frame["width"]
ds.add_tensor("crowded", "float64", fill=0.0)
ds["crowded"][frame.index] = frame["crowded"]
ds.commit("boxes per pixel of width")
fullest = ds.query("ORDER BY crowded DESC LIMIT 1")
print(f"image {fullest['image_id'][0]} has {fullest['crowded'][0]:.3f} boxes per pixel of width")

# 3. Join with another table by any column.
review = pd.DataFrame({"image_id": frame["image_id"][:4], "grade": ["a", "b", "a", "c"]})
graded = ds.query(
    "SELECT image_id, grade, crowded FROM this JOIN $review AS r USING (image_id)"
    " WHERE grade = 'a'",
    review=review,
)
print(graded.to_pandas())
assert sorted(graded["image_id"][:].tolist()) == sorted(review["image_id"][[0, 2]])

# 4. Ingest a table.
kept = tl.ingest.arrow(review, "memory://job12/review")
assert kept["grade"][:] == ["a", "b", "a", "c"]
