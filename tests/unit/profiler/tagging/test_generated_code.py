"""Tests of the kernel to which a statement of Inductor's generated code belongs."""

import textwrap

from pgmo.profiler.tagging.generated_code import MARKS, mark

HEAD = "def empty_strided_cpu(*_): return []\n"


def kernels(body):
    made = mark(HEAD + "def call(args):\n" + textwrap.indent(textwrap.dedent(body), "    "), "m.py")
    return [kernel.name for kernel in made.kernels]


def test_a_buffer_is_for_the_first_kernel_that_has_it():
    assert kernels("""
        arg0, arg1 = args
        args.clear()
        assert_size_stride(arg0, (4,), (1,), 'input')
        buf0 = empty_strided_cpu((4,), (1,), torch.float32)
        buf1 = empty_strided_cpu((4,), (1,), torch.float32)
        buf2 = empty_strided_cpu((4,), (1,), torch.float32)
        cpp_fused_add_0(arg0, buf1)
        extern_kernels.mm(reinterpret_tensor(buf1, (2, 2), (2, 1), 0), arg1, out=buf0)
        del buf1
        return (buf0, buf2)
        """) == [
        *("extern_kernels.mm", "cpp_fused_add_0", "empty_strided_cpu"),
        *("cpp_fused_add_0", "extern_kernels.mm"),
    ]


def test_also_under_another_name():
    assert kernels("""
        buf0 = empty_strided_cuda((4,), (1,), torch.float32)
        buf1 = buf0; del buf0  # reuse
        buf2 = reinterpret_tensor(buf1, (2, 2), (2, 1), 0); del buf1  # reuse
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_0.run(buf2, 4, stream=stream0)
        triton_poi_fused_mul_1.run(buf2, 4, stream=stream0)
        return (buf2, )
        """) == ["triton_poi_fused_add_0", "triton_poi_fused_add_0", "triton_poi_fused_mul_1"]


def test_operators_are_called_as_without_compilation():
    assert kernels("""
        buf0 = torch.ops.aten.convolution_backward.default(args[0], [4])
        buf1 = buf0[0]
        aten.randint.low_out(0, 9, [2], out=buf1)
        buf2 = extern_kernels.convolution(buf1)
        u0 = buf2.item()
        return (buf2, u0)
        """) == ["aten.convolution_backward", "aten.randint", "extern_kernels.convolution"]


def test_memory_that_inductor_has_planned():
    assert kernels("""
        pool0 = empty_strided_cpu((4096, ), (1, ), torch.uint8)
        buf0 = alloc_from_pool(pool0, 0, torch.float32, (32, 32), (32, 1))
        buf1 = buf0  # alloc
        cpp_fused_0(buf1)
        """) == ["pool0", "cpp_fused_0"]


def test_within_other_statements():
    assert kernels("""
        with torch.cuda._DeviceGuard(0):
            torch_cuda_set(0)
            buf0 = empty_strided_cuda((4,), (1,), torch.float32)
            if args[0]:
                triton_per_fused_0.run(buf0)
            else:
                triton_per_fused_1.run(buf0)
        return buf0
        """)[1:] == ["triton_per_fused_0", "triton_per_fused_0", "triton_per_fused_1"]


SOURCE = """
class Runner:
    def call(self, args):
        a, = args
        args.clear()
        b = empty_strided_cpu(4)
        kernel(a, b)
        return (b, )
"""


def run(code, **names):
    scope = {"empty_strided_cpu": lambda size: [0] * size, **names}
    exec(SOURCE, scope)
    scope["Runner"].call.__code__ = code
    return scope["Runner"]().call


def test_lines_stay_where_they_were():
    made = mark(SOURCE, "m.py")

    def fail(*_):
        raise RuntimeError

    lines = []
    for code in (made.plain, made.marked):
        marks = type("Marks", (), dict.fromkeys(("begin", "at", "end"), lambda *_: None))()
        try:
            run(code["Runner.call"], kernel=fail, **{MARKS: marks})([1])
        except RuntimeError as error:
            lines.append(error.__traceback__.tb_next.tb_lineno)
    assert lines == [7, 7]
