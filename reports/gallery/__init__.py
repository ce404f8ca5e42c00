"""Results of servers and versions, and their comparison."""
