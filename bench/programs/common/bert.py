"""Small BERT with random weights that classifies texts."""

from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from programs.common.running import Arguments


def bert(given: Arguments, tokens: PreTrainedTokenizerFast) -> BertForSequenceClassification:
    """Build a model with two classes for the tokenizer's tokens."""
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=given.choose(128, 32),
        num_hidden_layers=given.choose(3, 1),
        num_attention_heads=given.choose(4, 2),
        intermediate_size=given.choose(512, 64),
    )
    return BertForSequenceClassification(config)


def label(text: str) -> int:
    """Return the class of a text."""
    return len(text) % 2
