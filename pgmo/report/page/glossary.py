"""Meanings of the words in a report, for first-time readers."""

import html

WORDS = {
    "Block": "A piece of memory that the program requested, from its request to its free.",
    "Request, tick": (
        "Ordinal of a request: the first request of the iteration is tick 0, the next "
        "request tick 1. Ticks are not seconds."
    ),
    "Allocated": "Bytes that the program's blocks had requested when the file was written.",
    "Reserved": (
        "Bytes that the allocator had taken from the device when the file was written: blocks, and "
        "the holes between them."
    ),
    "Max load": (
        "The most bytes of planned blocks that are alive at the same time. No arena can be smaller."
    ),
    "Arena": (
        "The memory in which each planned block has its place. Every iteration uses the same arena."
    ),
    "PyTorch would reserve": "Bytes that PyTorch's caching allocator would take from a GPU for the "
    "same requests. The allocator keeps freed memory in pieces that often fit no other request: "
    "fragmentation.",
    "with expandable segments": "Bytes that PyTorch's allocator would take with "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with which its pieces can grow.",
    "In no block": "Reserved bytes that no block occupied.",
    "A plan saves": "Bytes that PyTorch would reserve, minus the arena and the blocks without a "
    "place in it.",
    "A plan takes more": "The arena and the blocks without a place in it, minus the bytes that "
    "PyTorch would reserve.",
    "Persistent": (
        "Blocks that are never freed, such as parameters and optimizer state. They have no "
        "place in the arena, and take memory in addition to the arena."
    ),
    "Shared": (
        "Blocks that several streams use. They have no place in the arena, and take memory in "
        "addition to the arena."
    ),
    "A plan needs": "The arena and the blocks that have no place in it.",
    "Private pool": "Memory of CUDA graphs or of a MemPool, which no other request gets. Its "
    "survivors are the blocks that no capture frees. Its temporaries are all other blocks, which a "
    "graph uses only while it replays: graphs that never replay at once could share temporaries.",
    "Planned": "Blocks that have a place in the arena: all blocks except persistent and shared "
    "blocks.",
    "Leaks": "Memory that iterations allocate again and again, and that no iteration frees.",
    "Before recording": "Blocks of unknown origin that existed when the recording began.",
    "Phase": "The part of a training step: forward, backward, recompute or optimizer; else other.",
}
"""Meaning by word or by title of a figure."""


def words() -> str:
    """Return all meanings as an HTML element that opens on click."""
    rows = "".join(
        f"<div><dt>{html.escape(word)}</dt><dd>{html.escape(text)}</dd></div>"
        for word, text in WORDS.items()
    )
    return (
        f'<details class="words"><summary>What these words mean</summary><dl>{rows}</dl></details>'
    )
