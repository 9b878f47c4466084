"""The service: relays agents' calls untouched, records what the provider answered, and judges."""
