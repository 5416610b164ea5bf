"""Tests of unchanged models of transformers with `pgmo.recompute`."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import pgmo  # noqa: E402

SIZES = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def step(model, batch, seed):
    torch.manual_seed(seed)
    model.zero_grad()
    result = model(**batch)
    result.loss.backward()
    return [result.loss.detach(), *(one.grad for one in model.parameters()), torch.rand(1)]


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(x is y if x is None or y is None else torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("name", ["Llama", pytest.param("Mixtral", marks=pytest.mark.slow)])
def test_masks_shapes_and_settings_that_change(name):
    config = getattr(transformers, f"{name}Config")(**SIZES, num_key_value_heads=2)
    plain = getattr(transformers, f"{name}ForCausalLM")(config).train()
    other = copy.deepcopy(plain)
    words = torch.randint(128, (4, 16))
    mask = torch.ones_like(words)
    short = mask.clone()
    short[0, 8:] = 0
    model, plan = pgmo.recompute(other, budget="min")
    batches = [
        {"input_ids": words, "labels": words, "attention_mask": mask},
        {"input_ids": words, "labels": words, "attention_mask": short},
        {"input_ids": words[:, :12], "labels": words[:, :12]},
        {"input_ids": words, "labels": words, "attention_mask": mask},
    ]
    for seed, batch in enumerate(batches):
        assert same(step(model, batch, seed), step(plain, batch, seed))
    for seed in range(2):  # another mask changes the path, so that the step is measured again
        step(model, batches[0], seed)
    assert plan.measured_peak <= 1.02 * plan.peak
    plain.config.use_cache = other.config.use_cache = False
    assert same(step(model, batches[0], 0), step(plain, batches[0], 0))


def test_hidden_states_are_collected_within_one_graph():
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2)
    plain = transformers.LlamaForCausalLM(config).train()
    words = torch.randint(128, (2, 16))
    batch = {"input_ids": words, "labels": words, "output_hidden_states": True}
    model, _ = pgmo.recompute(copy.deepcopy(plain), batch, budget="min", whole=True)
    for seed in range(2):
        assert same(step(model, batch, seed), step(plain, batch, seed))
    assert len(model(**batch).hidden_states) == SIZES["num_hidden_layers"] + 1
