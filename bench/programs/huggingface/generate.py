"""`generate()` of transformers: batches of prompts of any length, greedily, with a cache.

Source: https://huggingface.co/docs/transformers/llm_tutorial
"""

import torch

from programs.common.llama import llama
from programs.common.running import arguments, device, finish
from programs.common.texts import Texts

given = arguments()
where = device()
texts = Texts(given)
batch, answer = given.choose((4, 16), (2, 4))
tokens = texts.tokens
tokens.padding_side = "left"
model = llama(given, tokens, layers=4, ends=True).to(where).eval()
prompts = texts.sentences(given.steps // 4 * batch)
found = []
for begin in range(0, len(prompts), batch):
    inputs = tokens(prompts[begin : begin + batch], return_tensors="pt", padding=True).to(where)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        answers = model.generate(**inputs, max_new_tokens=answer, do_sample=False)
    found.extend(answers[:, inputs["input_ids"].size(1) :].sum(dim=1).tolist())
finish(given, model, found)
