"""LSTM of `workloads.seq2seq` in float32."""

import torch

from workloads import seq2seq


class Seq2Seq(seq2seq.Seq2Seq):
    """Training and inference of the LSTM."""

    precision = torch.float32
