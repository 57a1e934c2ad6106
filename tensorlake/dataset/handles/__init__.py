"""Handles: `Dataset`, `View`, `Tensor` and `Row`; all rooms below know `RowSet` alone."""
