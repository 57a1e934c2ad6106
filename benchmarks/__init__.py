"""The figures of tensorlake, each beside what it is compared to: ``make bench``.

    harness    the input of every contender; Benchmark, Contender, Measurement; a fresh process for
               each run, rounds interleaved; ratios with min, median and max, as text and pages
    peers      other libraries, each in an environment of its own, and what their Python runs
    limits     bare loops that make the same reads without tensorlake
    ingest     writing: JPEG files, COCO, float arrays
    loading    reading to train: JPEG epochs, token rows
    loader     the same beside other loaders, their limits, and networks
    remote     the same over a network that adds 20 ms to each request
    media      audio, points; media_video, media_volumes: clips of videos, patches of NIfTI volumes
    regions    bytes and requests of regions of one large array
    requests   how many requests opening and committing take
    storage    opening, committing, rows and ingestion beside other formats, from a folder
    storage_remote   the same over a network
    query      queries beside other engines (query_engine: DuckDB's columns; query_reads: bytes;
               query_curator: ten questions of a curator; query_cancel: how late queries end)
    scale      what 10⁹ rows cost; index_size, what pages and log entries weigh

Nothing here asserts on time: these are numbers, and each is a ratio to something of the same run,
because machines differ by more than contenders do.
"""
