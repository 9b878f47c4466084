"""The proxy's own questions, asked beside failures; `classifier.asking` is their law."""
