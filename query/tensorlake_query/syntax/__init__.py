"""Syntax: grammar, parser, syntax tree, printer and error messages."""
