"""Sources: rows and chunks that batches are made from, local or remote, one dataset or a mix."""
