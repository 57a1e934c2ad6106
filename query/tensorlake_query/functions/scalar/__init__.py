"""Operators, and functions of scalars, times and rows."""
