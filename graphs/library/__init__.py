"""The library of the research assistant: its holdings, its tools and the model that plays without a network."""
