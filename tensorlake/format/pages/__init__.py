"""Pages and packs: the binary tables of an index, with statistics."""
