"""Nothing that was said, and no key, is found anywhere afterwards."""
