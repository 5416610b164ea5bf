"""Adapters. Each installs pgmo's engine over the allocator of one framework."""
