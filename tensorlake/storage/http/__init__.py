"""HTTP: the client behind stores that are servers."""
