"""A step of which nothing stays: its graphs, and the memory of the code between them."""
