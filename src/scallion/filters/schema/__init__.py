"""The form of an answer: JSON Schemas and Python types, JSON in a text, and what is wrong with a value."""
