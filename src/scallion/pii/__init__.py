"""Personal data and secrets in text: finding them, and replacing them, whole or while the text comes in pieces."""

from scallion.pii.redaction import Redaction
from scallion.pii.rules import Finding, Rule
from scallion.pii.stream import RedactionStream

__all__ = ["Finding", "Redaction", "RedactionStream", "Rule"]
