"""Video files for tests: small moving pictures, in every container that tensorlake reads."""

from __future__ import annotations

import struct
from fractions import Fraction
from functools import lru_cache
from io import BytesIO

import av
import numpy as np

FRAMES, HEIGHT, WIDTH = 40, 48, 64

ENCODINGS = {
    # name: container, encoder, pixel format, options of the encoder, options of the container
    "h264": ("mp4", "libx264", "yuv420p", {"g": "10"}, {}),
    "open_groups": (
        *("mp4", "libx264", "yuv420p"),
        {"x264-params": "keyint=10:open-gop=1:bframes=3:scenecut=0"},
        {},
    ),
    "intra_refresh": (
        *("mp4", "libx264", "yuv420p"),
        {"x264-params": "intra-refresh=1:keyint=15"},
        {},
    ),
    "fragments": (
        *("mp4", "libx264", "yuv420p", {"g": "10"}),
        {"movflags": "frag_keyframe+empty_moov"},
    ),
    "h265": ("mp4", "libx265", "yuv420p", {"x265-params": "keyint=10:log-level=none"}, {}),
    "ten_bits": ("mp4", "libx264", "yuv420p10le", {"g": "10"}, {}),
    "matroska": ("matroska", "libx264", "yuv420p", {"g": "10"}, {}),
    "vp8": ("webm", "libvpx", "yuv420p", {"g": "10", "lag-in-frames": "16"}, {}),
    "vp9": ("webm", "libvpx-vp9", "yuv420p", {"g": "10"}, {}),
    "guessed_times": ("avi", "libx264", "yuv420p", {"g": "10"}, {}),
    "mpeg4_avi": ("avi", "mpeg4", "yuv420p", {"g": "10", "bf": "2"}, {}),
    "mjpeg": ("avi", "mjpeg", "yuvj420p", {}, {}),
    "prores": ("mov", "prores", "yuv422p10le", {}, {}),
    "ffv1": ("matroska", "ffv1", "bgr0", {}, {}),
    "gif": ("gif", "gif", "rgb8", {}, {}),
}


def moving_picture(frames=FRAMES, height=HEIGHT, width=WIDTH, seed=0):
    """Return blocks of colour that a camera passes: uint8 (frames, height, width, 3)."""
    blocks = np.random.default_rng(seed).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    scene = np.kron(blocks, np.ones((8, 8, 1), np.uint8))
    places = [(frame % 200, 2 * frame % 200) for frame in range(frames)]
    scene = np.tile(scene, (2, 2, 1)) if max(height, width) < 400 else np.tile(scene, (6, 6, 1))
    return np.stack([scene[y : y + height, x : x + width] for y, x in places])


def encode(frames, container, encoder, pixel_format, options=None, muxing=None, times=None):
    """Encode frames at 25 frames per second, or at times in milliseconds."""
    out = BytesIO()
    with av.open(out, "w", format=container, container_options=muxing or {}) as file:
        stream = file.add_stream(encoder, rate=25, options=options or {})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pixel_format
        if times is not None:
            stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame = frame.reformat(format=pixel_format)
            frame.pts = number if times is None else times[number]
            if times is not None:
                frame.time_base = Fraction(1, 1000)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return out.getvalue()


@lru_cache
def video_file(name: str, frames: int = FRAMES) -> bytes:
    """Return a file of one of the `ENCODINGS`, or one made of such a file."""
    match name:
        case "variable_rate":
            steps = np.random.default_rng(1).integers(5, 90, frames)
            times = np.cumsum(steps).tolist()
            pixels = moving_picture(frames)
            return encode(pixels, "mp4", "libx264", "yuv420p", {"g": "10"}, times=times)
        case "edit_list":  # the first seven frames are not shown
            return with_media_time(video_file("h264", frames), 7)
        case "rotated":
            return rotated(video_file("h264", frames))
        case "with_sound":
            return with_sound(frames)
        case _:
            return encode(moving_picture(frames), *ENCODINGS[name])


ODD = ("variable_rate", "edit_list", "rotated", "with_sound")


def with_media_time(file: bytes, frames: int) -> bytes:
    """Let the edit list of an MP4 begin so many frames later."""
    at = file.index(b"elst") + 4 + 8  # past the version and the number of entries
    duration, start = struct.unpack(">Ii", file[at : at + 8])
    tick = 512  # of 1/12800 s: one frame at 25 frames per second
    return file[:at] + struct.pack(">Ii", duration, start + frames * tick) + file[at + 8 :]


def rotated(file: bytes) -> bytes:
    """Mark an MP4 as filmed by a camera on its side."""
    at = file.index(b"tkhd") + 4 + 4 + 36  # past version, times, track, duration, layer, volume
    matrix = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    return file[:at] + matrix + file[at + 36 :]


def with_sound(frames: int = FRAMES) -> bytes:
    """Return an MP4 whose video packets lie between packets of sound."""
    out = BytesIO()
    with av.open(out, "w", format="mp4") as file:
        video = file.add_stream("libx264", rate=25, options={"g": "10"})
        video.height, video.width, video.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        sound = file.add_stream("aac", rate=16000, layout="mono")
        for number, pixels in enumerate(moving_picture(frames)):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts = number
            file.mux(video.encode(frame))
            samples = np.sin(np.arange(640) / 9 + number)[None].astype(np.float32)
            heard = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            heard.sample_rate, heard.pts = 16000, number * 640
            file.mux(sound.encode(heard))
        file.mux(video.encode())
        file.mux(sound.encode())
    return out.getvalue()


@lru_cache
def decoded_by_pyav(file: bytes) -> np.ndarray:
    """Decode a whole file as PyAV does: uint8 (frames, height, width, 3)."""
    with av.open(BytesIO(file)) as container:
        return np.stack([one.to_ndarray(format="rgb24") for one in container.decode(video=0)])
