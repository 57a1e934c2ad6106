"""Values: types, vectors, conversions, and the `ColumnSource` protocol."""
