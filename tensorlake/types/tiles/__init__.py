"""Tiles: arrays that are stored as boxes, each of which is read alone."""

from tensorlake.types.tiles.box import Box, box_of
from tensorlake.types.tiles.classes import ClassTable
from tensorlake.types.tiles.grid import TileGrid
from tensorlake.types.tiles.overview import Overview
from tensorlake.types.tiles.sample import (
    BLOSC_TILES,
    TileCodec,
    TileHead,
    is_tiled,
    parse_tiles,
    read_region,
    read_tiles,
    store_tiles,
    tile_map,
)
from tensorlake.types.tiles.samples import (
    TiledSamples,
    check_of,
    columns_in_tiles,
    tiled_sample,
    untiled,
    untiled_column,
    with_tiles_of,
)

__all__ = [
    "BLOSC_TILES",
    "Box",
    "ClassTable",
    "Overview",
    "TileCodec",
    "TileGrid",
    "TileHead",
    "TiledSamples",
    "box_of",
    "check_of",
    "columns_in_tiles",
    "is_tiled",
    "parse_tiles",
    "read_region",
    "read_tiles",
    "store_tiles",
    "tile_map",
    "tiled_sample",
    "untiled",
    "untiled_column",
    "with_tiles_of",
]
