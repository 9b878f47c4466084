"""Recording of finished calls: queue, group commits, and what the database did not take."""
