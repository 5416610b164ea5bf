"""The LSTM of `workloads.seq2seq`, in float32; each batch has sentences of another length."""

import torch

from workloads import seq2seq


class Seq2Seq(seq2seq.Seq2Seq):
    """Trained and inferred."""

    precision = torch.float32
