"""Bodies of requests and responses: JSON, Arrow, thumbnails, pages of rows."""
