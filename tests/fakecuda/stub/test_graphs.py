"""Captured work runs at each replay, and captures fail where they fail on a GPU."""

import torch

from tests.fakecuda.programs import run_program


def test_a_replay_does_the_captured_copies_again():
    # Zeros are copied to the device, because no kernel of the stub would fill its memory.
    source, target = torch.zeros(8).cuda(), torch.zeros(8).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        target.copy_(source)
    assert not torch.cuda.is_current_stream_capturing()
    for value in range(3):
        source.copy_(torch.full((8,), float(value)))
        assert target.cpu().tolist() == [max(value - 1, 0)] * 8
        graph.replay()
        assert target.cpu().tolist() == [value] * 8


def test_a_stream_that_waits_for_captured_work_joins_the_capture():
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    source, target = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.is_current_stream_capturing()
            target.copy_(source)
        torch.cuda.current_stream().wait_stream(side)
    source.copy_(torch.full((8,), 5.0))
    graph.replay()
    assert target.cpu().tolist() == [5.0] * 8


def test_looking_at_an_event_breaks_a_capture():
    # In its own process, because older versions of torch do not recover from the error.
    code = """
import json, torch
graph, event = torch.cuda.CUDAGraph(), torch.cuda.Event()
event.record()
try:
    with torch.cuda.graph(graph):
        event.query()
except RuntimeError as error:
    print(json.dumps(str(error)))
"""
    assert "capture" in run_program(code).lower()
