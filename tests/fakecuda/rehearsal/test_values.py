"""Values that scripts read in a rehearsal, and that let them take their usual branches."""

import json
import textwrap

import pytest

from tests.fakecuda.rehearsal.conftest import outputs_of

SCRIPTS: dict[str, str] = {}
OF_TRANSFORMERS: dict[str, str] = {}


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """Return the output of `SCRIPTS`, which run in one process."""
    return outputs_of(tmp_path_factory.mktemp("values"), SCRIPTS)


@pytest.fixture(scope="module")
def of_transformers(tmp_path_factory):
    """Return the output of the scripts that use transformers."""
    return outputs_of(tmp_path_factory.mktemp("of_transformers"), OF_TRANSFORMERS)


SCRIPTS["computed"] = """
import json, torch
here = dict(device="cuda")
tokens = torch.tensor([[5, 6, 0, 0], [7, 8, 9, 0]], **here)
mask = tokens != 0
lengths = mask.sum(1)
gathered = torch.cat([tokens, tokens + 1], 1)[:, 4:]
output.write(json.dumps([
    lengths.tolist(), mask.nonzero().tolist(), tokens[mask].tolist(), gathered.tolist(),
    torch.unique(tokens).tolist(), torch.repeat_interleave(lengths).tolist(),
    torch.bincount(tokens.flatten()).tolist(), bool((tokens == tokens).all()),
    torch.equal(tokens, tokens.clone()), int(lengths.max()), torch.where(mask)[1].tolist(),
    torch.masked_select(tokens, mask).tolist(), (lengths.float() / 2).tolist(),
]))
"""


def test_small_whole_numbers_are_computed(values):
    lengths, places, kept, gathered, distinct, repeated, counts, *rest = json.loads(
        values["computed"]
    )
    assert lengths == [2, 3]
    assert places == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert kept == [5, 6, 7, 8, 9]
    assert gathered == [[6, 7, 1, 1], [8, 9, 10, 1]]
    assert distinct == [0, 5, 6, 7, 8, 9]
    assert repeated == [0, 0, 1, 1, 1]
    assert counts == [3, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert rest == [True, True, 3, [0, 1, 0, 1, 2], [5, 6, 7, 8, 9], [1.0, 1.5]]


SCRIPTS["kept"] = """
import json, torch
labels = torch.tensor([5, 6, 7], device="cuda")
labels.record_stream(torch.cuda.current_stream())
shared = torch.empty(0, dtype=torch.int64, device="cuda").set_(labels)
output.write(json.dumps([labels.tolist(), shared.resize_(2).tolist()]))
"""


def test_operators_that_write_no_values_keep_them(values):
    assert json.loads(values["kept"]) == [[5, 6, 7], [5, 6]]


SCRIPTS["drawn"] = """
import json, torch
torch.manual_seed(3)
first = torch.rand(4).tolist()
drawn = torch.randint(10, 20, (64,), device="cuda")
scores = torch.randn(64, 50, device="cuda")
chosen = torch.multinomial(scores.softmax(-1), 1)
order = torch.randperm(64, device="cuda")
torch.manual_seed(3)
output.write(json.dumps([
    drawn.tolist(), chosen.flatten().tolist(), sorted(order.tolist()),
    first == torch.rand(4).tolist(),
]))
"""


def test_random_numbers_are_drawn(values):
    drawn, chosen, order, same = json.loads(values["drawn"])
    assert {*drawn} <= {*range(10, 20)}
    assert len({*drawn}) > 5
    assert len({*chosen}) > 5
    assert order == [*range(64)]
    assert same  # the script's own generator is not changed


SCRIPTS["training"] = """
import json, math, torch
from torch import nn
model = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
losses, norms, finite = [], [], []
for _ in range(6):
    pictures = torch.randn(512, 1024, device="cuda")
    labels = torch.randint(0, 10, (512,), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(pictures), labels)
    finite.append(bool(torch.isfinite(loss)) and not torch.isnan(pictures).any())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.item())
    norms.append(float(norm))
steps = [int(one["step"]) for one in optimizer.state.values()]
output.write(json.dumps([losses, norms, finite, steps, scaler.get_scale()]))
"""


def test_training_goes_its_ordinary_way(values):
    losses, norms, finite, steps, scale = json.loads(values["training"])
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1] > 0
    assert all(0 < norm < float("inf") for norm in norms)
    assert all(finite)
    assert set(steps) == {6}  # no step was skipped
    assert scale == 65536


def test_notes_count_the_uses_of_made_up_values(run):
    code = """
    import torch
    large = torch.randn(4096, 1024, device="cuda")
    print(large[large > 0].shape, large.mean().item())
    """
    notes = "\n".join(run(code).notes)
    assert "sizes that depended on made-up or missing values: 1 " in notes
    assert "nonzero in train.py:4" in notes
    assert "item 1" in notes


OFFLOADING = """
import torch
saved = []

def pack(tensor):
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    saved.append(tensor.detach())
    return copy

def unpack(copy):
    return copy.cuda()

class Reading(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one):
        ctx.save_for_backward(one)
        return one * 2

    @staticmethod
    def backward(ctx, grad):
        float(ctx.saved_tensors[0][0, 0])
        return grad * 2

weight = torch.randn(512, 512, device="cuda", requires_grad=True)
hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
for _ in range(3):
    with hooks:
        out = (weight.sin() * 2).exp()
    with torch.autograd.graph.save_on_cpu():
        out = out.cos()
    out.sum().backward()
"""


def test_offloading_to_the_host_reads_no_values(run):
    assert not any("number of values read" in note for note in run(OFFLOADING).notes)


def test_values_that_are_read_after_offloading_are_counted(run):
    code = """
    with hooks:
        read = weight.detach().cpu()  # by the script, not by the hook
        pack(saved[1])
        Reading.apply(weight * 1).sum().backward()
    """
    notes = "\n".join(run(OFFLOADING + textwrap.dedent(code)).notes)
    assert "reads of made-up values: 2 " in notes
    assert "copy to the host 1, item 1" in notes


OF_TRANSFORMERS["generation"] = """
import json, torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=32000, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2,
)
model = LlamaForCausalLM(config).cuda().eval()
prompt = torch.randint(3, 32000, (2, 12), device="cuda")
given = dict(attention_mask=torch.ones_like(prompt), max_new_tokens=20, pad_token_id=0)
greedy = model.generate(prompt, do_sample=False, **given)
sampled = model.generate(prompt, do_sample=True, top_k=50, **given)
different = len(set(sampled[0, 12:].tolist()))
output.write(json.dumps([list(greedy.shape), list(sampled.shape), different]))
"""


def test_answers_are_as_long_as_they_may_be(of_transformers):
    greedy, sampled, different = json.loads(of_transformers["generation"])
    assert greedy == sampled == [2, 32]
    assert different > 10


OF_TRANSFORMERS["stopping"] = """
import json, tempfile, torch
from transformers import (
    BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments,
)

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, at):
        tokens = torch.randint(5, 1000, (16,))
        return dict(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=at % 2)

config = BertConfig(
    vocab_size=1000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=32,
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, fp16=True, max_steps=16, per_device_train_batch_size=8, eval_strategy="steps",
        eval_steps=2, save_steps=2, load_best_model_at_end=True, report_to=[], disable_tqdm=True,
        metric_for_best_model="eval_loss",
    )
    trainer = Trainer(
        BertForSequenceClassification(config), arguments, train_dataset=Samples(),
        eval_dataset=Samples(), callbacks=[EarlyStoppingCallback(2)],
    )
    trainer.train()
output.write(json.dumps([trainer.state.global_step, trainer.accelerator.scaler.get_scale()]))
"""


def test_a_trainer_does_not_stop_early(of_transformers):
    steps, scale = json.loads(of_transformers["stopping"])
    assert steps == 16
    assert scale == 65536


SCRIPTS["masked"] = """
import json, torch
from torch import nn
model = nn.Linear(16, 16).cuda()
for share in (2, 4, 8):
    mask = (torch.arange(64) % share == 0).cuda()
    made = model(torch.randn(64, 16, device="cuda"))
    chosen = made[mask]
    (chosen.sum() + made.masked_select(made > 1).sum()).backward()
    output.write(f"{len(chosen)} ")
"""


def test_gradients_go_through_masks(values):
    assert values["masked"].split() == ["32", "16", "8"]


SCRIPTS["looked_for"] = """
import importlib.util
assert importlib.util.find_spec("torch")  # as libraries do, before they import it
import torch
output.write(str(torch.full((2,), 7, device="cuda").tolist()))
"""


def test_a_search_for_torch_before_its_import_keeps_values(values):
    assert values["looked_for"] == "[7, 7]"


SCRIPTS["routed"] = """
import json, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(1)
        counts.append(torch.bincount(chosen.flatten(), minlength=4).tolist())
        made = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero()[:, 0]
            made = made.index_add(0, rows, expert(x[rows]) * weights[rows])
        return x + made

model, counts = Experts().cuda(), []
for again in (False, True):
    x = torch.randn(1024, 32, device="cuda", requires_grad=True)
    checkpoint(model, x, use_reentrant=again).square().mean().backward()
output.write(json.dumps(counts))
"""


def test_experts_are_chosen_evenly_and_equally_when_computed_again(values):
    first, first_again, second, second_again = json.loads(values["routed"])
    assert (first, second) == (first_again, second_again)
    for one in (first, second):
        assert sum(one) == 1024
        assert max(one) < 3 * min(one)  # random in each run


SCRIPTS["printed"] = """
import torch
for _ in range(3):
    large = torch.full((1 << 16,), 1.5, device="cuda")
    whole = torch.arange(4, device="cuda")
    del large
loss = torch.randn(512, 512, device="cuda", requires_grad=True).mean()
output.write(f"{whole!r} {loss!r}")
"""


def test_tensors_are_printed(values):
    whole, _, loss = values["printed"].partition(" tensor")
    assert whole == "tensor([0, 1, 2, 3], device='cuda:0')"
    assert loss.startswith("(1.")
    assert loss.endswith(", device='cuda:0', grad_fn=<MeanBackward0>)")


SCRIPTS["linear"] = """
import json, pickle, torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

inputs, weight = torch.randn(4, 8, device="cuda"), torch.randn(16, 8, device="cuda")
compared, read = [], []

class Compared(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        compared.append(func is functional.linear)
        return super().__torch_function__(func, types, args, kwargs)

class Comparing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        compared.append(func is functional.linear)
        return func(*args, **(kwargs or {}))

class Reading(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            read.append(out.abs().max().item() > 0)
        return out

functional.linear(inputs, weight.as_subclass(Compared))
for mode in Comparing(), Reading():
    with mode:
        functional.linear(inputs, weight)
scripted = torch.jit.script(nn.Linear(8, 16).cuda())(inputs)
same = pickle.loads(pickle.dumps(functional.linear)) is functional.linear
output.write(json.dumps([compared, read, list(scripted.shape), same]))
"""


def test_linear_layers_can_be_compared_observed_scripted_and_pickled(values):
    compared, read, shape, same = json.loads(values["linear"])
    assert compared[:2] == [True, True]
    assert read == [True]
    assert shape == [4, 16]
    assert same
