"""Adapters. Each installs pgmo's engine under the allocator of one framework."""
