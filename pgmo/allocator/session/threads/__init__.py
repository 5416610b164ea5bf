"""Whose iterations a session counts where there are several threads, and one at a time between."""
