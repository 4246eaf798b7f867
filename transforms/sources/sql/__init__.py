"""Tables of databases: ``database.Database`` is what each kind states, a file each; ``opened``
reads them, and ``conditions`` writes a predicate in SQL."""
