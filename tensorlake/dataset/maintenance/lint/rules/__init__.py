"""The rules that come with tensorlake: each module has those about one kind of column."""
