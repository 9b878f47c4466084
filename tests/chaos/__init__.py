"""The board of somebody else's faults: how many leave a note in a verdict."""
