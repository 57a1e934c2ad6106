"""Sources: rows and chunks that batches are made of, local or remote, from one dataset or a mix."""
