"""Binding: names, types and clauses of a syntax tree, checked against a schema."""
