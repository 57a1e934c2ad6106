"""What notebooks show: escaped, bounded in size and in what is read, without scripts, whatever."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.display import html as shown
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on

HOSTILE = "<script>alert(1)</script>'\"><img src=x onerror=alert(1)>\x00\x1b[31m\u202e"
HOSTILE_NAME = "<script>alert(1)<script>'\"><img src=x onerror=alert(1)>"
TAGS = {"div", "b", "table", "tr", "td", "th", "img", "span"}
ATTRIBUTES = {"style", "src", "alt", "title"}


class Checked(HTMLParser):
    """Reads HTML as a browser does, and keeps what is in it."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.pictures, self.text = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.tags.append(tag)
        if tag == "img":
            source = dict(attrs)["src"]
            assert source.startswith("data:image/jpeg;base64,")
            self.pictures.append(base64.b64decode(source.partition(",")[2], validate=True))

    def handle_data(self, data):
        self.text += data


def shown_as(thing) -> Checked:
    html = thing._repr_html_()
    assert len(html.encode()) <= shown.HTML_NBYTES_MAX
    return Checked(html)


def noise(height, width, channels=3, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (height, width, channels), np.uint8)


def jpeg(height, width, seed=0):
    return simplejpeg.encode_jpeg(noise(height, width, seed=seed), quality=95)


@pytest.fixture(scope="module")
def ds():
    made = tl.create(
        "memory://notebook",
        {
            "image": tl.Image("jpeg", nullable=True),
            "boxes": tl.BBox("xywh", of="image"),
            "label": tl.ClassLabel(["cat", HOSTILE]),
            HOSTILE_NAME: tl.Text(),
        },
    )
    made.extend(
        {
            "image": [*(jpeg(200 + at, 300, at) for at in range(9)), None],
            "boxes": [[[10, 10, 90, 90], [np.nan, -1e9, np.inf, 1e9]]] * 10,
            "label": [at % 2 for at in range(10)],
            HOSTILE_NAME: [HOSTILE * 50] * 10,
        }
    )
    made.commit("ten")
    return made


def test_dataset_shows_its_tensors_and_eight_thumbnails(ds):
    seen = shown_as(ds)

    assert "Dataset 'memory://notebook' main@1 · 10 rows" in seen.text
    assert "BBox(xywh, of=image)" in seen.text
    assert len(seen.pictures) == 8
    for one in seen.pictures:
        assert max(simplejpeg.decode_jpeg(one).shape) <= shown.SMALL_SIDE


def test_row_shows_its_image_with_the_boxes_drawn(ds):
    (plain,) = Checked(
        shown.row_html("", rowset_of(ds).reader(), np.array([0]), ["image"], {})
    ).pictures

    (drawn,) = shown_as(ds[0]).pictures

    one, other = (simplejpeg.decode_jpeg(data).astype(int) for data in (plain, drawn))
    assert one.shape == other.shape
    assert max(one.shape) <= shown.LARGE_SIDE
    left, top = 10, 10
    red, green, _ = other[top, left + 20]
    assert red > 180
    assert green < 120
    middle = np.s_[top + 20 : top + 60, left + 20 : left + 60]
    assert np.abs(one[middle] - other[middle]).mean() < 12


def test_view_shows_its_first_five_rows(ds):
    seen = shown_as(ds.query("SELECT image, label, LENGTH(boxes) AS n WHERE label = 'cat'"))

    assert "5 of 10 rows" in seen.text
    assert len(seen.pictures) == 5
    assert seen.tags.count("tr") == 6
    assert "0 'cat'" in seen.text


def test_aggregates_are_shown_too(ds):
    seen = shown_as(ds.query("SELECT label, COUNT(*) AS n GROUP BY label"))

    assert "2 rows of aggregates" in seen.text
    assert seen.tags.count("tr") == 3


def test_tensor_shows_its_first_samples(ds):
    assert len(shown_as(ds["image"]).pictures) == 8
    assert "0 'cat'" in shown_as(ds["label"]).text
    assert "NULL" in shown_as(ds[9:]["image"]).text
    assert shown_as(ds[:0]["image"]).pictures == []


def test_hostile_names_and_texts_are_only_text(ds):
    for thing in (ds, ds[:3], ds[0], ds["label"], ds[HOSTILE_NAME]):
        html = thing._repr_html_()
        seen = Checked(html)

        assert "<script" not in html
        assert not re.search(r"<[^>]*onerror", html)
        assert "\x00" not in html
        assert "\u202e" not in html
        assert "<script>" in seen.text


def test_error_that_reading_raises_is_told_and_not_raised(ds, tmp_path):
    gone = tl.create(tmp_path / "gone.tl", {"x": "int64"})
    gone.extend({"x": [1]})
    gone.commit("one")
    held = tl.open(tmp_path / "gone.tl", read_only=True)
    for pack in (tmp_path / "gone.tl").rglob("*"):
        if pack.is_file():
            pack.unlink()

    assert "cannot be shown: " in shown_as(held[:1]).text


def test_damaged_image_is_told_in_its_place():
    whole = jpeg(64, 64)
    ds = tl.create("memory://notebook-damaged", {"image": tl.Image("jpeg")})
    ds.extend({"image": [whole[:-700] + b"\0" * 698 + b"\xff\xd9", whole]})

    seen = shown_as(ds["image"])

    assert len(seen.pictures) >= 1


@pytest.mark.parametrize(
    ("kind", "pixels"),
    [
        (tl.Image("png", "L"), noise(300, 20, 1)),
        (tl.Image("png", "RGBA"), noise(20, 300, 4)),
        (tl.Image("png", "RGB16"), noise(7, 5).astype(np.uint16) << 8),
        (tl.Image("jpeg", "L"), noise(50, 50, 1)),
        (tl.Image("jpeg", upright=True), noise(50, 50)),
        (tl.Image("png"), noise(1, 5000)),
    ],
    ids=lambda one: one.describe() if isinstance(one, tl.Image) else "",
)
def test_images_of_every_mode_have_a_thumbnail(kind, pixels):
    ds = tl.create(f"memory://notebook-{kind.describe()}{pixels.shape}", {"image": kind})
    ds.extend({"image": [pixels]})

    (one,) = shown_as(ds["image"]).pictures

    height, width = simplejpeg.decode_jpeg(one).shape[:2]
    assert 1 <= max(height, width) <= shown.SMALL_SIDE
    ds.discard()


def test_image_of_too_many_pixels_is_not_decoded(monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.display.thumbnails.PIXELS_MAX", 99)
    ds = tl.create("memory://notebook-large", {"image": tl.Image("png")})
    ds.extend({"image": [noise(10, 10)]})

    seen = shown_as(ds)

    assert "png 10×10×3" in seen.text
    assert "too large to be shown" in seen.text
    ds.discard()


def test_many_wide_columns_stay_within_the_bound():
    names = [f"t{at}" for at in range(40)]
    pictures = [jpeg(300, 300, at) for at in range(6)]
    ds = tl.create("memory://notebook-wide", {name: tl.Image("jpeg") for name in names})
    ds.extend(dict.fromkeys(names, pictures))

    for thing in (ds, ds[:6], ds[0]):
        assert shown_as(thing).tags
    assert "… 28 more" in shown_as(ds).text
    ds.discard()


def test_what_is_read_from_a_store_is_bounded(monkeypatch):
    store = CountingStore(MemoryStore())
    schema = {"image": tl.Image("jpeg"), "text": tl.Text(), "v": tl.Embedding(4096)}
    writer = create_on(store, schema)
    picture = jpeg(256, 256)
    writer.extend(
        {
            "image": [picture] * 600,
            "text": ["x" * 9000] * 600,
            "v": np.random.default_rng(0).normal(size=(600, 4096)),
        }
    )
    writer.commit("600 rows")
    budget = 10 << 20
    monkeypatch.setattr(shown, "READ_NBYTES_MAX", budget)
    index_nbytes = 1 << 20
    assert writer.nbytes > 3 * budget

    for pick in (
        lambda ds: ds,
        lambda ds: ds[300:],
        lambda ds: ds[5],
        lambda ds: ds["image"],
        lambda ds: ds["v"],
    ):
        ds = open_on(store)
        before = store.bytes_read
        assert shown_as(pick(ds)).text
        assert store.bytes_read - before <= budget + index_nbytes


def test_what_would_pass_the_bound_is_told_and_not_read(ds, monkeypatch):
    monkeypatch.setattr(shown, "READ_NBYTES_MAX", 10)

    seen = shown_as(ds)

    assert seen.pictures == []
    assert seen.text.count("MB, not read") == 1
