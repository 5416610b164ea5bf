"""Run of a small program in a process of its own.

    python -m tests.gpu.run_program gpt --mode pgmo --save DIR

Prints one line of JSON: the losses (hexadecimal, so that they compare bit for bit), a fingerprint
of the final state, and the session's phases, hits and summary.
"""

import argparse
import contextlib
import json

from tests.gpu.device import make_deterministic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--mode", choices=("plain", "pgmo", "official"), default="plain")
    parser.add_argument("--save")
    parser.add_argument("--plan")
    parser.add_argument("--iterations", type=int, default=14)
    arguments = parser.parse_args()

    import torch

    import pgmo
    from tests.gpu.programs import PROGRAMS
    from tests.gpu.running import digest, plan_at_once, run

    if arguments.mode == "official":
        torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    make_deterministic()
    plan_at_once()
    context = contextlib.nullcontext()
    if arguments.mode != "plain":
        files = {"save": arguments.save, "plan": arguments.plan}
        options = {name: value for name, value in files.items() if value is not None}
        context = pgmo.optimize(device="cuda", model_name=arguments.program, **options)
    with context as session:
        outcome = run(PROGRAMS[arguments.program], session, arguments.iterations)
    result = {
        "losses": [float(value).hex() for value in outcome.values],
        "state": digest(outcome.state),
    }
    if session is not None:
        result["phases"] = [one.phase.value for one in session.history]
        result["hits"] = [one.hits for one in session.history]
        result["hit_bytes_rate"] = session.history[-1].hit_bytes_rate
        result["summary"] = str(session.summary())
        result["allocated"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
