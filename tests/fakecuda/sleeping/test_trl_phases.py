"""The guide's recipe for trl's GRPOTrainer: sleeping objects, and saved memory."""

import re
from typing import Any

import pytest

from tests.fakecuda.pages.block_program import MIB
from tests.fakecuda.programs import ROOT, run_program

pytest.importorskip("trl")
pytest.importorskip("datasets")

PROGRAM = """
import json, sys, tempfile
sys.modules["triton"] = None  # its kernels need a driver
import pgmo, torch
from datasets import Dataset
from programs.common.texts import tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig
from phased_grpo import PhasedGRPOTrainer
from pgmo.rehearsal.values.mode import Values
from tests.fakecuda.control import used
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
Values().begin()  # generate() asks the device when to stop
levels, refused, kept, values = {}, [], [], []

class Trainer(PhasedGRPOTrainer):
    def begin(self, name, *unused):
        if name == "rollout":
            values[:] = [one.cpu() for one in states()]
        super().begin(name, *(unused if ASLEEP else ()))
        levels.setdefault(name, []).append(used())
        if name == "rollout":
            refused[:] = map(error_of, (self.optimizer.state_dict, self.ref_model.state_dict))
        if name == "training":
            kept.append(all(map(torch.equal, values, (one.cpu() for one in states()))))

def error_of(call):
    try:
        call()
    except pgmo.PgmoError as error:
        return str(error)
    return None

def states():
    found = trainer.optimizer.state.values()
    return [one for state in found for one in state.values() if one.is_cuda and one.dim()]

config = LlamaConfig(vocab_size=512, hidden_size=1024, intermediate_size=2048, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, pad_token_id=0, eos_token_id=3, bos_token_id=2)
words = tokenizer(506)
words.padding_side = "left"
with tempfile.TemporaryDirectory() as folder:
    policy = LlamaForCausalLM(config)
    policy.save_pretrained(folder + "/reference")
    policy.config._name_or_path = folder + "/reference"
    trainer = Trainer(
        policy,
        reward_funcs=lambda completions, **_: [1.0] * len(completions),
        args=GRPOConfig(folder, max_steps=3, per_device_train_batch_size=2, num_generations=2,
            gradient_accumulation_steps=2, max_completion_length=4, beta=0.04, bf16=False,
            gradient_checkpointing=False, save_strategy="no", report_to=[], disable_tqdm=True),
        train_dataset=Dataset.from_dict({"prompt": ["w1 w2 w3 w4 w5"] * 4}),
        processing_class=words,
    )
    trainer.train()
steps, sizes = trainer.state.global_step, [one.nbytes for one in states()]
weights = sum(one.nbytes for one in trainer.ref_model.parameters())
print(json.dumps([steps, levels, refused, kept, sum(sizes), weights]))
"""


@pytest.fixture
def run(tmp_path: Any) -> Any:
    """Return a function that runs the program with the class of the guide."""
    page = (ROOT / "docs/guides/phases.md").read_text()
    recipe = re.search(r"```python\n# phased_grpo.py\n(.*?)```", page, re.DOTALL)
    assert recipe is not None
    (tmp_path / "phased_grpo.py").write_text(recipe[1])
    paths = f"{ROOT}:{ROOT / 'bench'}:{tmp_path}"

    def run(asleep: bool) -> Any:
        code = PROGRAM.replace("ASLEEP", str(asleep))
        return run_program(code, PYTHONPATH=paths, HF_HUB_OFFLINE="1", FAKECUDA_DEVICES="1")

    return run


def test_optimizer_and_reference_of_trl_sleep_in_their_phases(run: Any) -> None:
    steps, asleep, refused, kept, state, reference = run(True)
    _, awake, *_ = run(False)
    assert steps == 3
    assert refused[0].startswith("the contents of this AdamW sleep")
    assert refused[1].startswith("the contents of this LlamaForCausalLM sleep")
    assert kept == [True] * 3
    saved = {"rollout": state + reference, "scoring": state, "training": reference}
    for name, size in saved.items():
        for at in (1, 2):  # the optimizer has no state before its first step
            assert awake[name][at] - asleep[name][at] >= size - 8 * MIB
