"""Images and annotations: folders, COCO, YOLO, Pascal VOC, WebDataset."""
