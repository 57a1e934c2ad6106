"""Lint: defects that large datasets often have, found by small rules."""
