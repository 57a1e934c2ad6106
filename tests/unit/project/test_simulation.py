"""The simulated store keeps its limits and its order; its figures are those of the seed."""

from benchmarks.simulation import Store, commits_per_s, group_commits_per_s, read_requests_per_s


def test_one_writer_commits_as_fast_as_two_requests_take() -> None:
    assert 24 < commits_per_s(1, seconds=10) < 26  # two PUTs of 20 ms


def test_equal_seeds_give_equal_figures() -> None:
    one, same, other = Store(seed=1), Store(seed=1), Store(seed=2)
    for store in (one, same, other):
        commits_per_s(8, seconds=5, store=store)

    assert one.counts == same.counts != other.counts


def test_more_writers_of_one_branch_publish_hardly_more_and_a_server_does() -> None:
    alone, many = commits_per_s(1, seconds=10), commits_per_s(32, seconds=10)

    assert many < 1.5 * alone
    assert group_commits_per_s(32, seconds=10) > 10 * many


def test_requests_above_the_limit_of_a_prefix_are_refused() -> None:
    below, refused_below = read_requests_per_s(4, rows_per_s=1000, rows_per_get=1, seconds=3)
    above, refused = read_requests_per_s(16, rows_per_s=1000, rows_per_get=1, seconds=3)
    chunks, refused_chunks = read_requests_per_s(16, rows_per_s=1000, rows_per_get=80, seconds=3)

    assert (refused_below, refused_chunks) == (0, 0)
    assert refused > 0.3
    assert 3500 < below < above <= 5500 + 5500 / 3 + 1  # the bucket is full at first
    assert chunks > 2 * above
