"""Steps and scripts without a card, and without a CUDA build of torch."""

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.errors import OptionError, RehearsalError  # noqa: E402
from pgmo.fit.estimate import estimate, estimate_script  # noqa: E402
from pgmo.fit.law import Load  # noqa: E402
from pgmo.profiler.iterations.from_trace import profile_of  # noqa: E402

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")

WIDTH, SAMPLES = 1024, 64
WEIGHTS = 4 * (WIDTH * WIDTH + WIDTH)


def perceptron(optimizer, wrap=None):
    def build():
        net = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
        ).to("cuda")
        made = optimizer(net.parameters())

        def step():
            loss = net(torch.randn(SAMPLES, WIDTH, device="cuda")).square().mean()
            loss.backward()
            made.step()
            made.zero_grad()

        return (wrap or (lambda plain: plain))(step)

    return build


def test_categories_add_up():
    found = estimate(perceptron(torch.optim.Adam), card="RTX 4090")
    need = found.need
    assert need.source == "estimated"
    assert need.parameters == need.gradients == 2 * WEIGHTS
    assert need.optimizer_state == 4 * WEIGHTS
    assert sum(need.categories.values()) == need.allocated_peak
    # The workspaces of cuBLAS and cuBLASLt: of the main thread, and of autograd's.
    assert need.workspaces >= 2 * (8320 << 10) + (1 << 20)
    assert need.allocated_peak <= need.reserved["expandable"] <= need.reserved["default"]
    assert need.notes == ()


def test_categories_of_blocks_add_up_to_those_of_the_peak():
    found = estimate(perceptron(torch.optim.Adam))
    load = Load(profile_of(found.profile.trace, whole=True), found.category)
    told = found.need.categories
    # What is requested, and not the blocks of 512 bytes that it takes.
    assert load.at_peak == pytest.approx(told, rel=0.001)
    assert load.at_peak["parameters"] == load.at_peak["gradients"] == 2 * WEIGHTS
    assert load.at_peak["workspaces"] >= 2 * (8320 << 10)


def test_the_profile_is_one_iteration_that_can_be_planned():
    profile = estimate(perceptron(torch.optim.Adam)).profile
    assert profile.circular
    assert profile.steady
    assert profile.meta.device == "cuda:0"
    assert {tag.module for tag in profile.tags} >= {"Sequential.0", "Sequential.2", "Adam"}
    plan = pgmo.plan(profile)
    assert plan.arena >= plan.max_load > SAMPLES * WIDTH * 4


def test_an_optimizer_without_state_needs_less():
    plain = estimate(perceptron(lambda weights: torch.optim.SGD(weights, 0.1)))
    assert plain.need.optimizer_state == 0
    adam = estimate(perceptron(torch.optim.Adam))
    assert plain.need.allocated_peak + 4 * WEIGHTS <= adam.need.allocated_peak


def test_a_function_that_returns_nothing_is_a_step():
    def step():
        perceptron(torch.optim.Adam)()()

    assert estimate(step, steps=2).need.parameters > 0


def test_a_model_that_is_dropped_gives_its_memory_back():
    """Each step makes a model and drops it, as a search over sizes does."""

    def step():
        perceptron(torch.optim.Adam)()()

    assert estimate(step, steps=3).need.parameters == 2 * WEIGHTS


def test_gradients_that_meet_are_added_in_place():
    size = 4 << 20

    def branches(count):
        def step():
            x = torch.zeros(size // 4, device="cuda", requires_grad=True)
            sum(x * number for number in range(count)).backward(torch.empty_like(x))

        return estimate(step, steps=1).profile.trace.requests

    # One more branch is one more product, and in the backward pass one more gradient; adding the
    # gradient to those before takes nothing, and the sum of the results takes one.
    assert branches(4) - branches(3) == 3


def test_half_the_bytes_in_half_precision():
    def of(enabled):
        def wrap(step):
            def cast():
                with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
                    step()

            return cast

        profile = estimate(perceptron(torch.optim.Adam, wrap)).profile
        forward = [
            size
            for size, tag in zip(profile.size.tolist(), profile.tag.tolist(), strict=True)
            if profile.tags[tag].op == "aten.relu"
        ]
        return forward[-1]

    assert of(True) * 2 == of(False) == SAMPLES * WIDTH * 4


def test_data_on_the_host_have_their_values():
    lengths = []

    def step():
        rows = torch.tensor([3, 1, 2])
        longest = int(rows.max())
        lengths.append(longest)
        torch.zeros(longest, 1000).to("cuda").sum()

    assert estimate(step).profile.trace.size.max() == 12000
    assert lengths == [3, 3, 3]


def test_what_is_read_from_the_card_is_assumed_and_said():
    def step():
        loss = torch.zeros(3, device="cuda").sum()
        assert loss.item() == 1.0
        assert not torch.isnan(loss)

    notes = estimate(step, steps=2).need.notes
    assert any("number read from the card" in note for note in notes)
    assert any("truth value" in note for note in notes)


def test_the_card_is_found_meanwhile_and_gone_afterwards():
    seen = []

    def step():
        seen.append((torch.cuda.is_available(), torch.cuda.get_device_name()))
        assert torch.empty(3, device="meta").device.type == "meta"
        torch.ones(3, device="cuda")

    estimate(step, card="RTX 4090", steps=1)
    assert seen == [(True, "RTX 4090")]
    assert not torch.cuda.is_available()
    weight = torch.nn.Linear(2, 2).weight
    assert type(weight) is torch.nn.Parameter
    assert torch.autograd.is_multithreading_enabled()


def test_an_error_of_the_step_passes_and_leaves_nothing_behind():
    def step():
        torch.ones(3, device="cuda") @ torch.ones(4, device="cuda")

    with pytest.raises(RuntimeError):
        estimate(step)
    assert not torch.cuda.is_available()
    torch.ones(3).sum()


def test_what_stays_on_the_host_cannot_be_estimated():
    with pytest.raises(RehearsalError, match='move it to "cuda"'):
        estimate(lambda: None)
    with pytest.raises(OptionError, match="steps is 0"):
        estimate(lambda: None, steps=0)


SCRIPT = """
import sys
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
net = torch.nn.Linear(1000, 1000).to(device)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = torch.utils.data.TensorDataset(torch.zeros(64, 1000))
while True:
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=int(sys.argv[1])):
        loss = net(batch.to(device)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_script_runs_unchanged_until_it_has_made_its_steps(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = estimate_script([str(script), "8"], card="16GiB")
    assert found.steps == 3
    assert found.need.parameters == 4004352
    assert found.profile.circular
    assert len(found.category) == found.profile.trace.requests


def test_a_script_that_compiles_is_estimated_operator_by_operator(tmp_path):
    script, needs = tmp_path / "train.py", []
    for net in ("net", "torch.compile(net)"):
        script.write_text(SCRIPT.replace("net(batch", f"{net}(batch"))
        needs.append(estimate_script([str(script), "8"], card="16GiB").need)
    assert needs[0].allocated_peak == needs[1].allocated_peak
    assert needs[0].notes == ()
    assert needs[1].notes[0].startswith("torch.compile was left out")


def test_sizes_that_depend_on_values_are_for_rehearsals(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\ntorch.ones(8, device='cuda').unique()\n")
    with pytest.raises(RehearsalError, match="sizes depend on values there"):
        estimate_script([str(script)])


def test_operators_without_sizes_are_for_rehearsals(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nnet = torch.nn.GRU(4, 4).to('cuda')\n"
        "net(torch.ones(2, 1, 4, device='cuda'))[0].sum().backward()\n"
    )
    with pytest.raises(RehearsalError, match="does not know what this operator makes; rehearse"):
        estimate_script([str(script)])


def test_recurrent_networks_are_said_to_be_without_rules():
    def build():
        net = torch.nn.LSTM(16, 16).to("cuda")
        return lambda: net(torch.randn(4, 2, 16, device="cuda"))[0].sum().backward()

    (note,) = estimate(build).need.notes
    assert note.startswith("recurrent networks are estimated as without cuDNN")


def test_a_script_that_fails_says_why(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "try:\n    {}['file']\nexcept KeyError as error:\n"
        "    raise ValueError('no data\\nasked for by\\n  nobody') from error\n"
    )
    with pytest.raises(RehearsalError, match=r"ValueError: no data \(from KeyError: 'file'\)"):
        estimate_script([str(script)])
