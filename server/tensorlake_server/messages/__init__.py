"""Messages of the REST API as types."""
