"""Runtime: threads, counters, statistics and clocks."""
