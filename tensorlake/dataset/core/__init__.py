"""The core: sessions, `RowSet`, steps, and values read by position."""
