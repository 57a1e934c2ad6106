"""Arrow tables in and out: columns, types and values of both sides."""
