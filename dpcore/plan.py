"""Placeholder until the plan lands; see INTERFACES."""
