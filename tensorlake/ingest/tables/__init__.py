"""Tables and text: Arrow, Parquet, CSV, JSON lines, tokens."""
