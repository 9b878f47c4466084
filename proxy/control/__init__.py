"""What runners and people can ask, one class a subject."""
