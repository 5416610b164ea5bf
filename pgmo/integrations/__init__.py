"""Integrations into training frameworks, one file each."""
