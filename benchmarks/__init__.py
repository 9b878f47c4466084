"""What the relay costs, measured beside a peer in the same run; it tests nothing."""
