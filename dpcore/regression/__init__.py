"""Regression in the stream: private running moments, and models made of them afterwards."""
