"""What can be wrong with a request for a trace."""


class TraceError(ValueError):
    """What was asked for makes no sense; the message says why."""
