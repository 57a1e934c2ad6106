from __future__ import annotations

import struct

from tensorlake_server.bodies.frames import Frame, FrameKind


def test_a_frame_says_what_it_shows_and_how_long_it_is() -> None:
    frame = Frame(FrameKind.JPEG, b"\xff\xd8", width=640, height=427).encode(3)

    assert struct.unpack("<IBxxxIII", frame[:20]) == (3, 1, 640, 427, 2)
    assert frame[20:] == b"\xff\xd8"


def test_a_long_message_is_cut_because_a_cell_has_no_room_for_it() -> None:
    frame = Frame.of_error(ValueError("x" * 10_000), shown=str)

    assert frame.nbytes == len(frame.encode(0)) == 20 + 500


def test_a_message_is_cut_between_its_letters() -> None:
    frame = Frame.of_error(ValueError("x" + "é" * 10_000), shown=str)

    assert frame.body.decode() == "x" + "é" * 249  # the 500th byte is the first half of one more


def test_a_message_with_half_a_character_is_said_too() -> None:
    frame = Frame.of_error(ValueError("no tensor \ud800 here"), shown=str)

    assert frame.body == b"no tensor ? here"
