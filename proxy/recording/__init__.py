"""Make exchanges durable: group commits, the backlog, the spill file."""
