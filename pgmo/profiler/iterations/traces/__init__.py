"""What repeats in a trace, where nobody has said which requests are one iteration."""
