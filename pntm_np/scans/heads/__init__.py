"""All heads of a P-NTM layer together."""
