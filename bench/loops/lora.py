"""Low-rank adapters on a frozen Llama, at any length, with recomputation of every layer."""

from peft import LoraConfig, get_peft_model
from torch import nn

from loops.llama import Llama, llama


class LoRA(Llama):
    """LoRA of rank 16 on the projections of attention, built by peft."""

    checkpointing = True

    def build(self) -> nn.Module:
        """Build the frozen model. Recomputation needs inputs that require gradients."""
        projections = ["q_proj", "k_proj", "v_proj", "o_proj"]
        config = LoraConfig(r=16, lora_dropout=0.05, target_modules=projections)
        base = llama(self.setting)
        base.enable_input_require_grads()
        made: nn.Module = get_peft_model(base, config).to("cuda")
        return made
