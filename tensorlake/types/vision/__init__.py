"""Vision types: images, boxes, polygons, keypoints and masks."""
