"""What operators take: time, memory beside their results, and how both are measured."""
