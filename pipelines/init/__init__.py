"""``weir init``: ``header.sniff`` reads names, types and likely roles of columns from the beginning
of a file; ``init.config_text`` writes a config from them. No value or bound of the data is in it.
"""
