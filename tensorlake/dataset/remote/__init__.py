"""Remote: what a server runs for its clients, and write sessions."""
