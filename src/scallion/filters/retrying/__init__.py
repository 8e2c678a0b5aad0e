"""What happens between two tries: kinds of failures, pauses between, waiting within the time of the turn."""
