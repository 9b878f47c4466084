"""`truezero doctor`: check the way from an agent to its models, a step at a time."""
