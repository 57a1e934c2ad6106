"""Merging byte ranges into requests."""

from hypothesis import given
from hypothesis import strategies as st

from tensorlake.storage import MergedRange, merge_ranges, scatter
from tensorlake.storage.api.coalesce import calls_of

RANGES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 200)).map(lambda r: (r[0], r[0] + r[1])),
    max_size=40,
)


def spans(merged: list[MergedRange]) -> list[tuple[int, int]]:
    return [(request.start, request.stop) for request in merged]


def test_near_ranges_are_merged_and_far_ones_are_not():
    assert spans(merge_ranges([(0, 4), (6, 9), (90, 99)], gap=4)) == [(0, 9), (90, 99)]


def test_gap_itself_is_still_merged():
    assert spans(merge_ranges([(0, 4), (8, 9)], gap=4)) == [(0, 9)]
    assert spans(merge_ranges([(0, 4), (9, 10)], gap=4)) == [(0, 4), (9, 10)]


def test_merging_stops_at_the_largest_request():
    ranges = [(start, start + 10) for start in range(0, 100, 10)]

    assert spans(merge_ranges(ranges, gap=0, max_nbytes=30)) == [
        (0, 30),
        (30, 60),
        (60, 90),
        (90, 100),
    ]


def test_range_above_the_largest_request_stays_whole():
    assert spans(merge_ranges([(0, 100), (10, 20), (100, 110)], max_nbytes=30)) == [
        (0, 100),
        (100, 110),
    ]


def test_nothing_is_merged_into_nothing():
    assert merge_ranges([]) == []


@given(RANGES, st.integers(0, 100), st.integers(1, 400))
def test_every_range_lies_in_exactly_one_request(ranges, gap, max_nbytes):
    merged = merge_ranges(ranges, gap=gap, max_nbytes=max_nbytes)

    positions = [position for request in merged for position in request.positions]
    assert sorted(positions) == [*range(len(ranges))]
    for request in merged:
        for position in request.positions:
            start, stop = ranges[position]
            assert request.start <= start <= stop <= request.stop


@given(RANGES, st.integers(0, 100), st.integers(1, 400))
def test_requests_waste_no_more_than_the_gaps(ranges, gap, max_nbytes):
    for request in merge_ranges(ranges, gap=gap, max_nbytes=max_nbytes):
        covered = {byte for position in request.positions for byte in range(*ranges[position])}
        wasted = request.stop - request.start - len(covered)
        longest = max(ranges[p][1] - ranges[p][0] for p in request.positions)
        assert wasted <= gap * (len(request.positions) - 1)
        assert request.stop - request.start <= max(max_nbytes, longest)


@given(RANGES, st.integers(0, 100), st.integers(1, 400))
def test_every_range_gets_its_own_bytes_back(ranges, gap, max_nbytes):
    stored = bytes(at % 251 for at in range(1200))
    merged = merge_ranges(ranges, gap=gap, max_nbytes=max_nbytes)
    blocks = [stored[request.start : request.stop] for request in merged]

    found = scatter(merged, blocks, ranges)

    assert [bytes(one) for one in found] == [stored[start:stop] for start, stop in ranges]


def test_what_is_scattered_is_a_view_and_no_copy():
    block = bytes(100)
    ranges = [(0, 4), (50, 60)]

    found = scatter(merge_ranges(ranges, gap=64), [block], ranges)

    assert all(isinstance(one, memoryview) and one.obj is block for one in found)


@given(RANGES, st.integers(1, 5), st.integers(1, 400))
def test_every_request_is_in_one_call_in_order_and_large_ones_alone(ranges, most, max_nbytes):
    merged = merge_ranges(ranges, gap=0)

    calls = calls_of(merged, max_requests=most, max_nbytes=max_nbytes)

    assert [request for call in calls for request in call] == spans(merged)
    for call in calls:
        assert len(call) <= most
        assert len(call) == 1 or sum(stop - start for start, stop in call) <= max_nbytes
