"""What `pii` is made of: values, streams and errors without personal data, and the tokens that stand for it."""
