"""A run and its data, turned into a record of what was learned."""
