"""FSDP2 over a fake process group with lagging streams: the waits in replay.

Prints a JSON object. No stream does any work before the iteration has been submitted. So each
page that another stream has used in the iteration needs a wait.
"""

import json

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import pgmo
from pgmo.profiler.ordering.order import RECORD, WAIT
from pgmo.rehearsal import control

STEPS, LAST = 20, 3


def main() -> None:
    """Train, and print the figures."""
    dist.init_process_group("fake", rank=0, world_size=8)
    mesh = init_device_mesh("cuda", (8,))
    layers = [torch.nn.Linear(2048, 2048) for _ in range(6)]
    model = torch.nn.Sequential(*layers).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters())
    pooled = [torch.cuda.Stream(priority=level) for level in (0, -1) for _ in range(32)]
    streams = [torch.cuda.current_stream(), *pooled]
    with pgmo.optimize(device="cuda") as session:
        for _ in range(STEPS):
            for stream in streams:
                control.hold(stream)
            optimizer.zero_grad()
            model(torch.zeros(4096, 2048, device="cuda")).square().mean().backward()
            optimizer.step()
            for stream in streams:
                control.release(stream)
            session.step()
    order, plan = session.profile.order, session.plan
    last = session.history[-LAST:]
    print(
        json.dumps(
            {
                "phase": [str(one.phase) for one in last],
                "records": int((order.kind == RECORD).sum()),
                "waits": int((order.kind == WAIT).sum()),
                "hand_overs": [one.hand_overs for one in last],
                "waited": [one.driver_calls["waits"] for one in last],
                "added": [one.waits_added for one in last],
                "maps": [one.driver_calls["maps"] for one in last],
                "needed": session.statistics["planned_pages"],
                "bound": plan.ordered_load,
                "by_requests": plan.max_load,
            }
        )
    )


if __name__ == "__main__":
    main()
