"""Causal attention with four kinds of positional encoding, and its compiled form."""
