"""Causal attention with four kinds of positions, and its compiled form."""
