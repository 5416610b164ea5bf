"""Training of a small network in plain CuPy under pgmo.

    python examples/cupy_mlp.py --steps 100

Each iteration requests the same arrays in the same order. So after a few iterations, all arrays
come from slots of one arena.
"""

import argparse

import cupy

import pgmo


class Network:
    """Network of two layers, whose gradients are computed by hand.

    Args:
        batch: rows of the data.
        hidden: width of the hidden layer.
    """

    def __init__(self, batch: int = 512, hidden: int = 1024) -> None:
        random = cupy.random.RandomState(0)
        self.x = random.standard_normal((batch, 784)).astype(cupy.float32)
        self.y = random.standard_normal((batch, 10)).astype(cupy.float32)
        self.w1 = random.standard_normal((784, hidden)).astype(cupy.float32) * cupy.float32(0.03)
        self.w2 = random.standard_normal((hidden, 10)).astype(cupy.float32) * cupy.float32(0.03)
        self.loss = cupy.zeros((), cupy.float32)

    def step(self) -> None:
        """Run the forward and the backward pass, and a step of gradient descent."""
        hidden = cupy.maximum(self.x @ self.w1, 0)
        error = hidden @ self.w2 - self.y
        self.loss = (error * error).mean()
        gradient = error * cupy.float32(2 / error.size)
        back = (gradient @ self.w2.T) * (hidden > 0)
        self.w2 -= cupy.float32(0.1) * (hidden.T @ gradient)
        self.w1 -= cupy.float32(0.1) * (self.x.T @ back)


def main(steps: int) -> float:
    """Train for `steps` steps, and return the last loss."""
    network = Network()
    with pgmo.optimize(framework="cupy") as session:
        for _ in range(steps):
            with session.iteration():
                network.step()
    print(session.summary())
    return float(network.loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    print(f"loss {main(parser.parse_args().steps):.4f}")
