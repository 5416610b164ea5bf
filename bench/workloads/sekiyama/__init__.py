"""The networks of Sekiyama et al. 2018 (arXiv 1804.10001), each written from its own publication.

AlexNet, GoogLeNet, ResNet-50, Inception-ResNet-v2 and a sequence-to-sequence LSTM, trained in
float32 as in 2018, and in inference.
"""

TITLES = {
    "alexnet": "AlexNet",
    "googlenet": "GoogLeNet",
    "resnet": "ResNet-50",
    "inception_resnet": "Inception-ResNet-v2",
    "seq2seq": "seq2seq, any length, 8 to 64",
}
"""By the module, in the order of the paper."""

NAMES = tuple(TITLES)

REPORTED_REDUCTION = 0.495
"""Of memory, at most, over all of its networks: the paper's abstract."""
