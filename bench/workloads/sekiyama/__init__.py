"""The networks of Sekiyama et al. 2018 (arXiv 1804.10001), each written from its own publication.

AlexNet, GoogLeNet, ResNet-50, Inception-ResNet-v2 and a sequence-to-sequence LSTM, in training and
in inference, in float32 as in 2018.
"""

TITLES = {
    "alexnet": "AlexNet",
    "googlenet": "GoogLeNet",
    "resnet": "ResNet-50",
    "inception_resnet": "Inception-ResNet-v2",
    "seq2seq": "seq2seq, any length, 8 to 64",
}
"""Title of each network by its module, in the order of the paper."""

NAMES = tuple(TITLES)
