"""Data sets of images and boxes: of COCO and YOLO, and the embedded one."""
