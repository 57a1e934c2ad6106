"""The figures of tensorlake, each beside what it is compared to: ``make bench``.

    data       the images, tokens and arrays that all contenders are given
    harness    Benchmark, Contender, Measurement; a fresh process for each run, rounds interleaved
    ingest     writing: JPEG files, COCO, float arrays (ingest_peers: other formats' writers)
    loading    reading to train: JPEG epochs, token rows
    loader     the same beside other loaders (loader_peers), their limits, and networks
    remote     the same over a network that adds 20 ms to each request
    requests   how many requests opening and committing take
    storage    opening, committing, rows and ingestion beside other formats (peers), from a folder
    storage_remote   the same over a network
    scale      what 10⁹ rows cost; index_size, what pages and log entries weigh
    processes  another Python's figures, within a limit of time
    report     ratios with min, median and max; the table of docs/benchmarks.md

Nothing here asserts on time: these are numbers, and each is a ratio to something of the same run,
because machines differ by more than contenders do.
"""
