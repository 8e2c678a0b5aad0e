"""The refund desk: its tables, its tools and the model that plays it without a network."""
