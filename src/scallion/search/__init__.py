"""Indexes of tools: given what somebody wants to do, the names of the tools that may do it."""

from scallion.search.entry import Entry, ToolIndex, entry
from scallion.search.hybrid import HybridIndex
from scallion.search.keyword import KeywordIndex
from scallion.search.regex import RegexIndex
from scallion.search.vector import VectorIndex

__all__ = ["Entry", "HybridIndex", "KeywordIndex", "RegexIndex", "ToolIndex", "VectorIndex", "entry"]
