"""What pgmo writes: where it goes, how files are replaced, what killed processes leave."""
