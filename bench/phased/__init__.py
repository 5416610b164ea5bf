"""Programs of reinforcement learning on one card, for `phases.py`, and ways to run phases."""

PROGRAMS = {
    "grpo": "one model trains and generates, beside a reference",
    "pool": "the same with an engine in the process, whose memory is a `MemPool`",
    "trainer": "trl's GRPOTrainer, unchanged but for its phases",
    "processes": "an engine in a process of its own, with weights by CUDA IPC in each round",
}
