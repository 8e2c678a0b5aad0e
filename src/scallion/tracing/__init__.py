"""What happened in a turn: recorded while it runs, kept in the database, read when somebody looks."""

from scallion.tracing.trace import Part, Span, Trace

__all__ = ["Part", "Span", "Trace"]
