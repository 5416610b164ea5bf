"""accelerate's `nlp_example.py`: a plain loop, a scheduler, an evaluation after each epoch.

Source: https://github.com/huggingface/accelerate/blob/main/examples/nlp_example.py
"""

import torch
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding, get_linear_schedule_with_warmup

from programs.common.bert import bert, label
from programs.common.running import arguments, finish
from programs.common.texts import Texts

given = arguments()
texts = Texts(given)
tokens = texts.tokens
batch, samples = given.choose((8, 200), (2, 12))


def samples_of(count: int, seed: int) -> list[dict[str, object]]:
    """Return tokenized texts with labels."""
    return [{**tokens(text), "labels": label(text)} for text in texts.sentences(count, seed)]


accelerator = Accelerator(gradient_accumulation_steps=2)
collator = DataCollatorWithPadding(tokens)
train_loader = DataLoader(
    samples_of(samples, 0), shuffle=True, collate_fn=collator, batch_size=batch, drop_last=True
)
eval_loader = DataLoader(samples_of(samples // 4, 1), collate_fn=collator, batch_size=2 * batch)
model = bert(given, tokens)
optimizer = AdamW(params=model.parameters(), lr=2e-4)
scheduler = get_linear_schedule_with_warmup(optimizer, 10, given.steps)
model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
    model, optimizer, train_loader, eval_loader, scheduler
)
losses, steps = [], 0
while steps < given.steps:
    model.train()
    for batch_of in train_loader:
        with accelerator.accumulate(model):
            outputs = model(**batch_of)
            accelerator.backward(outputs.loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        steps += accelerator.sync_gradients
        losses.append(outputs.loss.item())
        if steps == given.steps:
            break
    model.eval()
    right = 0
    for batch_of in eval_loader:
        with torch.no_grad():
            outputs = model(**batch_of)
        predictions = outputs.logits.argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, batch_of["labels"]))
        right += (predictions == references).sum().item()
    losses.append(right)
finish(given, accelerator.unwrap_model(model), losses)
