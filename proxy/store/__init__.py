"""What is kept, and the only SQL in the house."""
