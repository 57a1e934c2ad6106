"""Bare loops that make the same reads without tensorlake: of a folder, a network, a server."""
