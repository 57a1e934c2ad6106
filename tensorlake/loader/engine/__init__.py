"""The engine: the `Loader`, its passes, and the pipeline from plan to batch."""
