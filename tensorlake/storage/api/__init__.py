"""The `Store` protocol, URLs, options, and failures in the store's terms."""
