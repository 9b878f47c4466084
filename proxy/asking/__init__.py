"""The proxy's own questions beside failures; `classifier.reference_rules` holds their rules."""
