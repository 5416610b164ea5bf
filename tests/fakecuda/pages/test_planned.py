"""A plan over pages makes no driver calls; without pages its arena is one block."""

import pytest

from tests.fakecuda.pages.block_program import run

SESSION = """
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
with pgmo.optimize(device="cuda", **{options}) as session:
    for _ in range(10):
        model(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step(); optimizer.zero_grad(); session.step()
summary = session.summary()
report(session.history[-1].hit_bytes_rate, summary.pages, sum(summary.driver_calls.values()))
"""


def test_a_plan_makes_no_calls_of_the_driver():
    hits, pages, calls = run(SESSION.format(options={}))
    assert hits == 1
    assert pages > 0
    assert calls == 0


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"pages": False}, {}),
        ({}, {"PGMO_PAGES": "0"}),
        ({}, {"FAKECUDA_NO_VMM": "1"}),
        ({"pages": False}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    ],
)
def test_an_arena_is_one_block_where_there_are_no_pages(options, environment):
    code = SESSION.format(options=options)
    if "PYTORCH_CUDA_ALLOC_CONF" in environment:
        environment = {**environment, "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    hits, pages, _ = run(code, **environment)
    assert hits == 1
    assert pages == 0
