"""Small Llama with random weights."""

from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from programs.common.running import Arguments


def llama(
    given: Arguments, tokens: PreTrainedTokenizerFast, *, layers: int = 3, ends: bool = False
) -> LlamaForCausalLM:
    """Build a model for the tokenizer's tokens.

    Args:
        given: the program's arguments.
        tokens: the tokenizer.
        layers: number of layers. With `given.small` the model has one layer.
        ends: whether generation ends at the tokenizer's end token.
    """
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=given.choose(128, 32),
        intermediate_size=given.choose(344, 64),
        num_hidden_layers=given.choose(layers, 1),
        num_attention_heads=given.choose(4, 2),
        num_key_value_heads=given.choose(4, 2),
        pad_token_id=tokens.pad_token_id,
        **({"eos_token_id": tokens.eos_token_id} if ends else {}),
    )
    return LlamaForCausalLM(config)
