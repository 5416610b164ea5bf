"""Commands about a program: on a card, beside others on it, or before there is one."""
