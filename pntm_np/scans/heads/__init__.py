"""All heads of a P-NTM layer at once."""
