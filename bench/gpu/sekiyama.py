"""Networks of Sekiyama et al. 2018 at the largest batch of a 16 GiB card, and samples per second.

    python bench/gpu/sekiyama.py --seconds 180
    python bench/gpu/sekiyama.py --quick           a tiny network, to see that it works

All five networks of the paper in float32, with cuDNN and its workspaces, and sentences of one
length. The script searches and measures as `largest_batch.py` does. `bench/sekiyama.py` measures
peaks without a GPU.
"""

from largest_batch import main

if __name__ == "__main__":
    main("sekiyama", "SEKIYAMA", ("default", "pgmo", "pages"), str(__doc__))
