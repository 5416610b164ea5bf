"""Operators that use cuSOLVER and cuFFT, which the stub does not have.

torch.linalg.qr(x) ─▶ linalg_qr on CUDA ─▶ results of the right shapes, after a workspace
                                        └─▶ values on the host, if the values of x are known

PyTorch's CUDA kernels are replaced, because backward passes call them without a dispatch mode. The
size of the workspace is a guess: the bytes of all operands.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from pgmo.rehearsal.values.known import KnownStorages, on_host, readable
from pgmo.rehearsal.values.operators import on_card, replacing_kernels

_SOLVER = (
    "linalg_qr",
    "geqrf",
    "ormqr",
    "linalg_householder_product",
    "_linalg_eigh",
    "linalg_eig",
    "linalg_eigvals",
    "_linalg_svd",
    "linalg_cholesky_ex",
    "cholesky",
    "cholesky_solve",
    "cholesky_inverse",
    "linalg_lu",
    "linalg_lu_factor_ex",
    "linalg_lu_solve",
    "linalg_inv_ex",
    "_linalg_solve_ex",
    "_linalg_det",
    "_linalg_slogdet",
    "linalg_lstsq",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
)
_TRANSFORMS = ("_fft_r2c", "_fft_c2c", "_fft_c2r")

Run = Callable[..., Any]


class HostLibraries:
    """Replacement of the kernels that call cuSOLVER and cuFFT.

    Attributes:
        rules: for each replaced operator, the function that runs the operator in the dispatch mode.
        called: number of calls of each operator.
    """

    def __init__(self, known: KnownStorages, run: Run) -> None:
        self._known = known
        self._run = run
        self.called: Counter[str] = Counter()
        names = (*_SOLVER, *_TRANSFORMS)
        self._operators = [getattr(torch.ops.aten, name).default for name in names]
        self.rules: dict[Any, Run] = dict.fromkeys(self._operators, self._with_codes)

    def begin(self) -> None:
        """Replace the kernels."""
        with replacing_kernels() as self._library:
            for func in self._operators:
                name = func._schema.name.removeprefix("aten::")
                kernel = partial(self._kernel, func)
                self._library.impl(name, kernel, "CUDA")
            check = torch.ops.aten._linalg_check_errors.default

            def check_on_host(codes: Tensor, name: str, *, is_matrix: bool) -> None:
                check(on_host(codes), name, is_matrix=is_matrix)

            self._library.impl("_linalg_check_errors", check_on_host, "CUDA")

    def _kernel(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Allocate the results of an operator on the card, after its workspace."""
        name = func._schema.name.removeprefix("aten::")
        operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        shapes = self._shapes(func, name, args, kwargs)
        self.called[name] += 1
        device = operands[0].device
        workspace = torch.empty(
            sum(one.nbytes for one in operands), dtype=torch.uint8, device=device
        )
        del workspace
        made = tree_map(partial(_on, device), shapes)
        self._set_codes(func, made)
        return made

    def _shapes(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return tensors of the results' shapes, on no card, or raise `NotImplementedError`."""
        if name == "linalg_lstsq":
            # CUDA supports this driver only. The CPU's default driver also returns a rank.
            return func(*tree_map(_on_host_at_random, args), **{**kwargs, "driver": "gels"})
        try:
            given, options = tree_map(partial(_on, "meta"), (args, kwargs))
            return func(*given, **options)
        except NotImplementedError as error:
            library = "cuFFT" if name in _TRANSFORMS else "cuSOLVER"
            raise NotImplementedError(
                f"{name} needs {library}, which rehearsals do not have"
            ) from error

    def _with_codes(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an operator in the dispatch mode, and set unknown error codes to success."""
        out = self._run(func, args, kwargs)
        self._set_codes(func, out)
        return out

    def _set_codes(self, func: Any, out: Any) -> None:
        """Write the identity to unknown pivots, and 0 (success) to other unknown integers."""
        results = out if isinstance(out, (list, tuple)) else (out,)
        for one, result in zip(func._schema.returns, results, strict=True):
            for code in on_card(result):
                if code.is_floating_point() or code.is_complex() or not readable(code):
                    continue
                if code in self._known or not code.numel():
                    continue
                host = on_host(code)
                host.zero_()
                if one.name == "pivots":
                    host.copy_(torch.arange(1, code.shape[-1] + 1, dtype=code.dtype))
                self._known.add(code)


def _on_host_at_random(value: Any) -> Any:
    return torch.rand(value.shape, dtype=value.dtype) if isinstance(value, Tensor) else value


def _on(device: torch.device | str, value: Any) -> Any:
    """Return an uninitialized tensor of equal shape on a device, or a value that is no tensor."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
