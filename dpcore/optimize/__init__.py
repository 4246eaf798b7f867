"""Private optimisation over a batch of rows: solvers, and the queries by which they see data."""
