"""`generate()` of transformers: batches of prompts of any length, greedily, with a cache.

Source: https://huggingface.co/docs/transformers/llm_tutorial
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from programs.running import arguments, device, finish
from programs.texts import sentences, tokenizer

given = arguments()
where = device()
words, median, longest = given.choose((1000, 32, 96), (50, 6, 12))
batch, answer = given.choose((4, 16), (2, 4))
tokens = tokenizer(words)
tokens.padding_side = "left"
config = LlamaConfig(
    vocab_size=len(tokens),
    hidden_size=given.choose(128, 32),
    intermediate_size=given.choose(344, 64),
    num_hidden_layers=given.choose(4, 1),
    num_attention_heads=given.choose(4, 2),
    num_key_value_heads=given.choose(4, 2),
    pad_token_id=tokens.pad_token_id,
    eos_token_id=tokens.eos_token_id,
)
model = LlamaForCausalLM(config).to(where).eval()
prompts = sentences(given.steps // 4 * batch, words, median, longest)
found = []
for begin in range(0, len(prompts), batch):
    inputs = tokens(prompts[begin : begin + batch], return_tensors="pt", padding=True).to(where)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        answers = model.generate(**inputs, max_new_tokens=answer, do_sample=False)
    found.extend(answers[:, inputs["input_ids"].size(1) :].sum(dim=1).tolist())
finish(given, model, found)
