"""``weir audit``: attacks a job's complete output, from bytes to the sink."""
