"""What CUDA kernels take besides their results: workspaces and temporaries, which nothing returns.

Each rule was found by running its operator on the stub CUDA runtime, where PyTorch's own code asks
the genuine allocator, and is compared with what was recorded there.
"""
