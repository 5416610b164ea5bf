"""DPOTrainer of trl: chosen and rejected answers, LoRA of peft, a reference without it.

Source: https://huggingface.co/docs/trl/dpo_trainer
"""

from datasets import Dataset
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer

from programs.common.llama import llama
from programs.common.running import arguments, folder
from programs.common.texts import Texts
from programs.common.trainers import TRL, finish_training, settings

given = arguments()
texts = Texts(given, 1000, 24, 64)
samples = [texts.sentences(given.choose(200, 40), seed) for seed in range(3)]
data = Dataset.from_dict(dict(zip(("prompt", "chosen", "rejected"), samples, strict=True)))
model = llama(given, texts.tokens)
with folder() as place:
    trainer = DPOTrainer(
        model,
        args=DPOConfig(
            **settings(given, place),
            **TRL,
            per_device_train_batch_size=given.choose(4, 2),
            max_length=256,
        ),
        train_dataset=data,
        processing_class=texts.tokens,
        peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )
    trainer.train()
finish_training(given, trainer.model, trainer)
