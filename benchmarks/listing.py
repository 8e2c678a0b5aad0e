"""Listing what waits for a person: one page of our index, against what LangGraph's API offers for it."""
