"""Public fakes for tests and demonstrations: a chat model that follows a script."""

from scallion.testing.model import BreaksOff, ScriptedModel, ScriptExhausted

__all__ = ["BreaksOff", "ScriptExhausted", "ScriptedModel"]
