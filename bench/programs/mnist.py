"""pytorch/examples, `mnist/main.py`: epochs whose last batch is smaller, with tests after each.

Source: https://github.com/pytorch/examples/blob/main/mnist/main.py
"""

import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, device, finish

given = arguments()
where = device()
batch, samples = given.choose((32, 350), (4, 30))


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities, shape (batch, 10)."""
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = torch.flatten(self.dropout1(functional.max_pool2d(x, 2)), 1)
        x = self.dropout2(functional.relu(self.fc1(x)))
        return functional.log_softmax(self.fc2(x), dim=1)


def digits(count: int) -> TensorDataset:
    """Return random pictures and labels."""
    return TensorDataset(torch.randn(count, 1, 28, 28), torch.randint(10, (count,)))


train_loader = DataLoader(digits(samples), batch_size=batch, shuffle=True)
test_loader = DataLoader(digits(samples // 4), batch_size=4 * batch)
model = Net().to(where)
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
losses, steps = [], 0
while steps < given.steps:
    model.train()
    for data, target in train_loader:
        data, target = data.to(where), target.to(where)
        optimizer.zero_grad()
        output = model(data)
        loss = functional.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 10 == 0:
            losses.append(loss.item())
        if steps == given.steps:
            break
    model.eval()
    test_loss = 0.0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(where), target.to(where)
            output = model(data)
            test_loss += functional.nll_loss(output, target, reduction="sum").item()
    losses.append(test_loss)
    scheduler.step()
finish(given, model, losses)
