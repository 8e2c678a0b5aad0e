"""What the extractor reads and writes: letters of customers, and the orders in them."""
