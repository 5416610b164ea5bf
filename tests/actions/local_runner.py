"""Local execution of a composite action's steps, as on GitHub's runner."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@dataclass(frozen=True)
class Ran:
    """Results of an action."""

    exit_code: int
    log: str
    summary: str
    outputs: Mapping[str, str]


def run_action(
    action: Path,
    inputs: Mapping[str, str],
    workspace: Path,
    temp: Path,
    path: str,
    event: Mapping[str, str] = MappingProxyType({}),
) -> Ran:
    """Run all steps until one fails.

    Args:
        action: path of the file `action.yml`.
        inputs: inputs of `with:`, among them all required ones, and none that the action lacks.
        workspace: folder of the checkout, in which the steps begin.
        temp: the runner's folder for temporary files.
        path: value of PATH.
        event: values of the event, by names such as "repository.default_branch".
    """
    text = yaml.safe_load(action.read_text())
    assert text["runs"]["using"] == "composite"
    declared = text["inputs"]
    assert inputs.keys() <= declared.keys()
    assert all(name in inputs for name, one in declared.items() if one.get("required"))
    values = {
        f"inputs.{name}": inputs.get(name, str(one.get("default", "")))
        for name, one in declared.items()
    }
    values |= {f"github.event.{name}": value for name, value in event.items()}
    values["runner.temp"] = str(temp)
    temp.mkdir(exist_ok=True)
    files = {name: temp / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    log, code = "", 0
    for step in text["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert not _EXPRESSION.search(step["run"]), "inputs go by variables, never into a script"
        files["GITHUB_OUTPUT"].write_text("")
        environment = os.environ | {
            **{name: str(file) for name, file in files.items()},
            **{name: _evaluated(value, values) for name, value in step.get("env", {}).items()},
            "PATH": path,
        }
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
        )
        log += done.stdout + done.stderr
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step.get('id')}.outputs.{name}"] = value
        code = done.returncode
        if code:
            break
    outputs = {name: _evaluated(one["value"], values) for name, one in text["outputs"].items()}
    summary = files["GITHUB_STEP_SUMMARY"]
    return Ran(code, log, summary.read_text() if summary.exists() else "", outputs)


def _evaluated(text: str, values: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: values.get(match[1], ""), str(text))
