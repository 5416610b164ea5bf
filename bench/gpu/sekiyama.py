"""Networks of Sekiyama et al. 2018 at the largest batch of a 16 GiB card, and samples per second.

    python bench/gpu/sekiyama.py --seconds 40
    python bench/gpu/sekiyama.py --quick           a tiny network, to see that it works

ResNet-50 and a sequence-to-sequence LSTM in float32, with cuDNN and its workspaces. It searches and
measures as `largest_batch.py` does; `bench/sekiyama.py` has all five networks, without a GPU.
"""

from largest_batch import main

if __name__ == "__main__":
    main("sekiyama", "SEKIYAMA", ("default", "expandable", "pgmo"), str(__doc__))
