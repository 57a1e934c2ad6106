"""What notebooks show: ``_repr_html_`` of datasets, views, rows and tensors."""

from tensorlake.dataset.notebook.shown import dataset_html, row_html, tensor_html, view_html

__all__ = ["dataset_html", "row_html", "tensor_html", "view_html"]
