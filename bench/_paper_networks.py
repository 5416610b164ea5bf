"""The networks of Kusumoto et al. 2019, table 1, at its batches, as graphs of training steps.

Each is written from its own publication: VGG-19 (Simonyan, Zisserman 2014), U-Net (Ronneberger et
al. 2015), ResNet (He et al. 2015), GoogLeNet (Szegedy et al. 2014), DenseNet-161 (Huang et al.
2016), PSPNet on a dilated ResNet-101 (Zhao et al. 2016). `REDUCTIONS` is what the paper reports for
its approximate dynamic programming with the memory-centric strategy.
"""

from collections.abc import Callable
from typing import Literal

from _convolutional_graphs import Image, Steps

from pgmo.recompute.planners.graph import Graph

REDUCTIONS = {
    "PSPNet": 0.71,
    "U-Net": 0.45,
    "ResNet-50": 0.62,
    "ResNet-152": 0.75,
    "VGG-19": 0.36,
    "DenseNet-161": 0.81,
    "GoogLeNet": 0.39,
}
"""Of peak memory, as a share of the peak without recomputation."""


def create(name: str, rectifiers_keep: Literal["input", "output"] = "output") -> tuple[Graph, int]:
    """The graph of one training step, and the bytes of the parameters."""
    batch, build = _NETWORKS[name]
    net = Steps(batch, rectifiers_keep)
    graph = net.finish(build(net))
    return graph, net.parameter_bytes


def _conv_relu(net: Steps, x: Image, channels: int, kernel: int, padding: int = 0) -> Image:
    return net.relu(net.conv(x, channels, kernel, padding=padding))


def _vgg19(net: Steps) -> Image:
    x = net.given(3, 224, 224)
    for channels, layers in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(layers):
            x = _conv_relu(net, x, channels, 3, 1)
        x = net.max_pool(x, 2, 2)
    for _ in range(2):
        x = net.dropout(net.relu(net.linear(x, 4096)))
    return net.loss(net.linear(x, 1000))


def _unet(net: Steps) -> Image:
    x = net.given(1, 572, 572)
    skips = []
    for channels in (64, 128, 256, 512):
        for _ in range(2):
            x = _conv_relu(net, x, channels, 3)
        skips.append(x)
        x = net.max_pool(x, 2, 2)
    for _ in range(2):
        x = _conv_relu(net, x, 1024, 3)
    for channels in (512, 256, 128, 64):
        x = net.concat(net.up_conv(x, channels), skips.pop())
        for _ in range(2):
            x = _conv_relu(net, x, channels, 3)
    return net.loss(net.conv(x, 2, 1))


def _conv_norm(
    net: Steps, x: Image, channels: int, kernel: int, *, stride: int = 1, dilation: int = 1
) -> Image:
    padding = dilation * (kernel // 2)
    return net.batch_norm(
        net.conv(x, channels, kernel, stride=stride, padding=padding, dilation=dilation)
    )


def _bottleneck(net: Steps, x: Image, channels: int, stride: int, dilation: int = 1) -> Image:
    y = net.relu(_conv_norm(net, x, channels, 1, stride=stride))
    y = net.relu(_conv_norm(net, y, channels, 3, dilation=dilation))
    y = _conv_norm(net, y, 4 * channels, 1)
    if stride != 1 or x.channels != 4 * channels:
        x = _conv_norm(net, x, 4 * channels, 1, stride=stride)
    return net.relu(net.add(y, x))


def _resnet(*blocks: int) -> Callable[[Steps], Image]:
    def build(net: Steps) -> Image:
        x = net.relu(_conv_norm(net, net.given(3, 224, 224), 64, 7, stride=2))
        x = net.max_pool(x, 3, 2)
        for stage, count in enumerate(blocks):
            for block in range(count):
                x = _bottleneck(net, x, 64 * 2**stage, 2 if stage and not block else 1)
        return net.loss(net.linear(net.average(x), 1000))

    return build


def _pspnet(net: Steps) -> Image:
    x = net.given(3, 713, 713)
    for channels, stride in ((64, 2), (64, 1), (128, 1)):
        x = net.relu(_conv_norm(net, x, channels, 3, stride=stride))
    x = net.max_pool(x, 3, 2, 1)
    for stage, count in enumerate((3, 4, 23, 3)):
        for block in range(count):
            stride = 2 if stage == 1 and not block else 1
            x = _bottleneck(net, x, 64 * 2**stage, stride, max(1, 2 ** (stage - 1)))
    branches = [x]
    for bins in (1, 2, 3, 6):
        y = net.relu(_conv_norm(net, net.average(x, bins, bins), 512, 1))
        branches.append(net.resize(y, x.height, x.width))
    x = net.relu(_conv_norm(net, net.concat(*branches), 512, 3))
    x = net.conv(net.dropout(x), 21, 1)
    return net.loss(net.resize(x, 713, 713))


def _inception(net: Steps, x: Image, *channels: int) -> Image:
    one, before_three, three, before_five, five, pooled = channels
    return net.concat(
        _conv_relu(net, x, one, 1),
        _conv_relu(net, _conv_relu(net, x, before_three, 1), three, 3, 1),
        _conv_relu(net, _conv_relu(net, x, before_five, 1), five, 5, 2),
        _conv_relu(net, net.max_pool(x, 3, 1, 1), pooled, 1),
    )


def _googlenet(net: Steps) -> Image:
    x = net.given(3, 224, 224)
    x = net.max_pool(net.relu(net.conv(x, 64, 7, stride=2, padding=3)), 3, 2)
    x = _conv_relu(net, _conv_relu(net, x, 64, 1), 192, 3, 1)
    x = net.max_pool(x, 3, 2)
    x = _inception(net, x, 64, 96, 128, 16, 32, 32)
    x = _inception(net, x, 128, 128, 192, 32, 96, 64)
    x = net.max_pool(x, 3, 2)
    x = _inception(net, x, 192, 96, 208, 16, 48, 64)
    x = _inception(net, x, 160, 112, 224, 24, 64, 64)
    x = _inception(net, x, 128, 128, 256, 24, 64, 64)
    x = _inception(net, x, 112, 144, 288, 32, 64, 64)
    x = _inception(net, x, 256, 160, 320, 32, 128, 128)
    x = net.max_pool(x, 3, 2)
    x = _inception(net, x, 256, 160, 320, 32, 128, 128)
    x = _inception(net, x, 384, 192, 384, 48, 128, 128)
    return net.loss(net.linear(net.dropout(net.average(x)), 1000))


def _densenet161(net: Steps) -> Image:
    growth = 48
    x = net.given(3, 224, 224)
    x = net.relu(_conv_norm(net, x, 2 * growth, 7, stride=2))
    x = net.max_pool(x, 3, 2, 1)
    for stage, layers in enumerate((6, 12, 36, 24)):
        if stage:
            x = net.conv(net.relu(net.batch_norm(x)), x.channels // 2, 1)
            x = net.average(x, x.height // 2, x.width // 2)
        for _ in range(layers):
            y = net.conv(net.relu(net.batch_norm(x)), 4 * growth, 1)
            y = net.conv(net.relu(net.batch_norm(y)), growth, 3, padding=1)
            x = net.concat(x, y)
    x = net.average(net.relu(net.batch_norm(x)))
    return net.loss(net.linear(x, 1000))


_NETWORKS: dict[str, tuple[int, Callable[[Steps], Image]]] = {
    "PSPNet": (2, _pspnet),
    "U-Net": (8, _unet),
    "ResNet-50": (96, _resnet(3, 4, 6, 3)),
    "ResNet-152": (48, _resnet(3, 8, 36, 3)),
    "VGG-19": (64, _vgg19),
    "DenseNet-161": (32, _densenet161),
    "GoogLeNet": (256, _googlenet),
}
