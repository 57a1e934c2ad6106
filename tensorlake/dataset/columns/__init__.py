"""Computed columns: how they are declared, and which of their cells are fresh."""
