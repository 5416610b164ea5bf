"""Final output of `pgmo run`, after the script has ended."""

import json
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pgmo.allocator.session.verdict.judge import judge_device
from pgmo.allocator.session.verdict.verdict import Verdict
from pgmo.cli.terminal.output import print_json, print_wrote
from pgmo.cli.terminal.streams import checked_stdout
from pgmo.runner.early_pages import baselines, summary_of
from pgmo.runner.out_of_memory import is_out_of_memory, print_saved_files, save_out_of_memory
from pgmo.runner.program import Ending, Program
from pgmo.runner.supervision import Supervision
from pgmo.terminal import print_message
from pgmo.world import rank

_PROCESS = os.getpid()

_OF_CLOSED_STREAMS = (OSError, ValueError, AttributeError)
"""Errors of a stdout or stderr that is closed or was replaced."""

_ENOUGH = 5
"""Usual number of recorded iterations. A missing profile after so many has another reason."""


def finish(
    program: Program,
    ending: Ending,
    supervision: Supervision,
    *,
    json_path: str | None,
    quiet: bool,
) -> int:
    """Close the sessions, report, and return the program's exit code.

    Args:
        program: the program that ran.
        ending: how the program ended.
        supervision: the program's sessions.
        json_path: file for the counters; "-" for stdout, None for no file.
        quiet: whether to report only written files and an out-of-memory error.
    """
    if os.getpid() != _PROCESS:
        ending.show()  # in a child that the script has forked; only the parent reports
        return ending.code
    options = supervision.options
    failed = ending.error if is_out_of_memory(ending.error) else None
    kept: tuple[Path, ...] = ()
    if supervision.who_keeps is not None:
        supervision.who_keeps.at_end(ending.error)
    if failed is not None:
        folder = options.start / (options.save or ".")
        kept = save_out_of_memory(failed, supervision.sessions, folder, supervision.who_keeps)
    supervision.close()
    _note_keepers(supervision)
    with suppress(*_OF_CLOSED_STREAMS):
        ending.show()
    with suppress(*_OF_CLOSED_STREAMS):
        sys.stdout.flush()
    with suppress(*_OF_CLOSED_STREAMS):
        if not quiet and (supervision.sessions or not ending.code):
            for text in conclusions(supervision):
                print_message(text)
    if json_path is not None:
        _write_json(program, ending, supervision, kept, json_path)
    with suppress(*_OF_CLOSED_STREAMS):
        if kept:
            print_saved_files(map(options.shown, kept))
        elif (not quiet or supervision.saved) and not (rank() or 0):
            saved = [options.shown(path) for path in supervision.saved]
            went_well = not ending.code and not supervision.gave_up
            print_wrote(saved, _next_command(program, supervision, saved, went_well=went_well))
    return ending.code


def _note_keepers(supervision: Supervision) -> None:
    if supervision.who_keeps is None:
        return
    from pgmo.profiler.profile import Profile
    from pgmo.report.kept import with_kept

    summaries = {one.device: supervision.summary(one) for one in supervision.sessions}
    for path in supervision.saved:
        if path.suffix != ".pgmoprof":
            continue
        with supervision.harmless():
            profile = Profile.load(path)
            summary = summaries.get(profile.meta.device)
            if summary is None:
                continue  # The file may name another rank's device: equal ranks share a file.
            growing = () if summary.growth is None else summary.growth.kept
            with_kept(profile, growing, summary.kept).save(path)


def conclusions(supervision: Supervision) -> list[str]:
    """Return the paragraphs of the report on stderr."""
    texts: list[str] = []
    step_on = supervision.options.step_on
    for session in supervision.sessions:
        summary = supervision.summary(session)
        several = len(supervision.sessions) > 1
        if summary.iterations:
            texts.append((f"{session.device}: " if several else "") + str(summary))
        elif supervision.gave_up:
            texts.append("pgmo: no iteration was completed")  # a note states the reason
        elif step_on:
            texts.append(
                f"pgmo: no iteration was completed: each call of {step_on} raised an error, "
                "did not return, or overlapped another call"
            )
        else:
            texts.append(
                "pgmo: no iteration was completed: not every optimizer took a step after training "
                "began"
            )
        count = summary.iterations
        is_missing = supervision.options.profile_only and session.profile is None
        if is_missing and 0 < count < _ENOUGH and not supervision.gave_up:
            plural = "s" if count > 1 else ""
            texts.append(f"pgmo: {count} iteration{plural} gave no profile; let at least five run")
    notes = list(supervision.notes)
    if supervision.who_keeps is not None and supervision.who_keeps.error:
        notes.append(supervision.who_keeps.error)
    texts += [f"pgmo: {note}" for note in notes]
    if not texts and step_on:
        texts.append(
            f"pgmo: no call of {step_on} was seen. If its module imports the function, name the "
            "module that defines it: then calls by any name are seen"
        )
    with_session = {session.device for session in supervision.sessions}
    without_session = {
        device: verdict
        for device, verdict in verdicts(supervision).items()
        if device not in with_session
    }
    if not texts:
        torch = "torch" in sys.modules
        texts.append(
            "pgmo: the script took no step of a torch optimizer"
            + ("" if torch else ", and never imported torch")
            + (
                "; its requests were served from pages"
                if without_session
                else "; it ran as without pgmo"
            )
            + ". For other loops, use `with pgmo.optimize():`"
        )
    texts += [f"pgmo: {device}: {verdict}" for device, verdict in without_session.items()]
    return texts


def verdicts(supervision: Supervision) -> dict[str, Verdict]:
    """Return the verdict on each device: from its session, or else from its pages."""
    found = {device: judge_device(figures) for device, figures in baselines().items()}
    for session in supervision.sessions:
        verdict = summary_of(session).verdict
        if verdict is not None:
            found[session.device] = verdict
    return found


def _next_command(
    program: Program, supervision: Supervision, saved: list[Path], *, went_well: bool
) -> str | None:
    """Return the next commands, one a line; None if there are none.

    They view the saved files and, if there was no error, run the script again. If live memory
    grows, the first command runs the script with `--who-keeps`, unless this run had the option.
    """
    profiles = [path for path in saved if path.suffix == ".pgmoprof"]
    names = {supervision.options.name, *(one.stem for one in saved if one.suffix == ".pgmoplan")}
    main = [path for path in profiles if path.stem in names] or profiles
    words = ("-m", program.target) if program.is_module else (program.target,)
    again = shlex.join((*words, *program.arguments))
    summaries = map(supervision.summary, supervision.sessions)
    grows = any(one.growth is not None for one in summaries)
    search = [f"pgmo run --who-keeps {again}"] if grows and supervision.who_keeps is None else []
    if not main and search:
        return search[0]
    if not main:
        known = any(session.profile is not None for session in supervision.sessions)
        unsaved = known and not supervision.options.save and not supervision.options.plan
        return f"pgmo run --save plans {again}" if unsaved and went_well else None
    plan = main[0].with_suffix(".pgmoplan")
    profile, with_plan = shlex.quote(str(main[0])), ""
    commands = [f"pgmo stats {profile}"]
    if plan in saved:
        with_plan = f" --plan {shlex.quote(str(plan))}"
        if went_well:
            begin = (
                plan if rank() is None else plan.parent
            )  # each rank finds its plan in the directory
            commands.append(f"pgmo run --plan {shlex.quote(str(begin))} {again}")
    commands.insert(0, f"pgmo report {profile}{with_plan}")
    if supervision.options.profile_only:
        commands.insert(0, f"pgmo plan {profile}")
    return "\n      ".join([*search, *commands])


def _write_json(
    program: Program, ending: Ending, supervision: Supervision, kept: tuple[Path, ...], path: str
) -> None:
    fields = {
        "program": program.target,
        "arguments": list(program.arguments),
        "exit_code": ending.code,
        **supervision.to_fields(),
        "verdicts": {device: asdict(one) for device, one in verdicts(supervision).items()},
        "out_of_memory": [str(supervision.options.shown(one)) for one in kept],
    }
    if path == "-":
        with checked_stdout():
            print_json(fields)
        return
    text = json.dumps(fields, indent=2, allow_nan=False) + "\n"
    from pgmo.files.replacement import replace_file

    replace_file(supervision.options.start / path, text.encode())
