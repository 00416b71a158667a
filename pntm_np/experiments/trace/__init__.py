"""Record every step in which a model answers a text, and show it as a picture, a page, JSON or sentences."""
