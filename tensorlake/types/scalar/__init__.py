"""Types of scalars, text, arrays, lists and records."""
