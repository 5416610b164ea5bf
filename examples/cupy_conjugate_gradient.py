"""Solution of a linear system in plain CuPy under pgmo.

    python examples/cupy_conjugate_gradient.py --steps 50

Each iteration assigns three new vectors, so their blocks live into the next iteration. Each of
these blocks gets two slots, which are used in turn.
"""

import argparse

import cupy

import pgmo


class Solver:
    """Conjugate gradients for a symmetric positive definite system.

    Args:
        size: number of unknowns.
    """

    def __init__(self, size: int = 4000) -> None:
        random = cupy.random.RandomState(1)
        a = random.standard_normal((size, size))
        self.a = a @ a.T / size + cupy.eye(size)
        self.b = random.standard_normal(size)
        self.x = cupy.zeros(size)
        self.r = self.b.copy()
        self.p = self.r.copy()

    def step(self) -> None:
        """Run one iteration, without copying anything to the host."""
        ap = self.a @ self.p
        rr = self.r @ self.r
        alpha = rr / (self.p @ ap)
        self.x = self.x + alpha * self.p
        self.r = self.r - alpha * ap
        self.p = self.r + (self.r @ self.r) / rr * self.p

    def residual(self) -> float:
        """Return the norm of the residual, relative to that of the right-hand side."""
        error = self.b - self.a @ self.x
        return float(cupy.sqrt((error @ error) / (self.b @ self.b)))


def main(steps: int, size: int = 4000) -> float:
    """Run `steps` iterations, and return the relative residual."""
    solver = Solver(size)
    with pgmo.optimize(framework="cupy") as session:
        for _ in range(steps):
            with session.iteration():
                solver.step()
    print(session.summary())
    return solver.residual()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=4000)
    arguments = parser.parse_args()
    print(f"residual {main(arguments.steps, arguments.size):.2e}")
