"""Display of handles: as text, in a notebook, in the viewer."""
