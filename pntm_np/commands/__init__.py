"""The commands of ``pntm``: each parses, calls and prints."""
