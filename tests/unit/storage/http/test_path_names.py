"""Names as one part of a path: each is read back, and none is another's."""

from hypothesis import given
from hypothesis import strategies as st

from tensorlake.storage import name_of_part, part_of_name


@given(st.text(alphabet="a/~!", max_size=8), st.text(alphabet="a/~!", max_size=8))
def test_a_name_is_read_back_from_its_part_which_is_no_other_name_s(name, other):
    part = part_of_name(name)

    assert "/" not in part
    assert name_of_part(part) == name
    assert (part_of_name(other) == part) == (other == name)
