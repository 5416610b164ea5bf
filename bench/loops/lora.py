"""Low-rank adapters on a frozen Llama: any length, every layer recomputed."""

from peft import LoraConfig, get_peft_model
from torch import nn

from loops.llama import Llama, llama


class LoRA(Llama):
    """Rank 16 on the projections of attention, as peft builds it."""

    checkpointing = True

    def build(self) -> nn.Module:
        """The frozen model, whose inputs require gradients so that recomputation reaches them."""
        projections = ["q_proj", "k_proj", "v_proj", "o_proj"]
        config = LoraConfig(r=16, lora_dropout=0.05, target_modules=projections)
        base = llama(self.setting)
        base.enable_input_require_grads()
        made: nn.Module = get_peft_model(base, config).to("cuda")
        return made


LOOPS = {"lora": LoRA}
