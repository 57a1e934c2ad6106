"""COCO: the file of annotations, and the images beside it."""

from tensorlake.dataset.export.coco.writing import to_coco

__all__ = ["to_coco"]
