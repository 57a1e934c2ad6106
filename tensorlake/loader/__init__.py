"""The loader: from a selection to batches on a device."""
