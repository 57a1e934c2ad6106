"""Tiles: arrays that are stored as boxes, each of which is read alone."""

from tensorlake.types.tiles.box import Box, box_of
from tensorlake.types.tiles.grid import TileGrid
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

__all__ = [
    "BLOSC_TILES",
    "Box",
    "TileCodec",
    "TileGrid",
    "TileHead",
    "box_of",
    "is_tiled",
    "parse_tiles",
    "read_region",
    "read_tiles",
    "store_tiles",
    "tile_map",
]
