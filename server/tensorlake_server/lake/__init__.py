"""The served lake: its datasets, opened once, and as one principal may see them."""
