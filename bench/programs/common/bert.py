"""A small BERT with random weights, which classifies texts."""

from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from programs.common.running import Arguments


def bert(given: Arguments, tokens: PreTrainedTokenizerFast) -> BertForSequenceClassification:
    """A model for these tokens, with two classes."""
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=given.choose(128, 32),
        num_hidden_layers=given.choose(3, 1),
        num_attention_heads=given.choose(4, 2),
        intermediate_size=given.choose(512, 64),
    )
    return BertForSequenceClassification(config)


def label(text: str) -> int:
    """The class of a text."""
    return len(text) % 2
