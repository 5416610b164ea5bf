import shutil
import subprocess
import sys

import pytest

from pgmo.cli.catalog import COMMANDS
from pgmo.cli.main import main


def printed(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_script_knows_every_command_and_its_options(shell, capsys):
    pytest.importorskip("shtab")
    script = printed(shell, capsys)
    assert all(command in script for command in COMMANDS)
    assert "time-limit" in script


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_files(capsys, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "net.pgmoprof").touch()
    script = printed("bash", capsys)

    def complete(*words):
        ask = f"""{script}
        cd {tmp_path}
        COMP_WORDS=(pgmo {" ".join(repr(word) for word in words)})
        COMP_CWORD={len(words)}
        $(complete -p pgmo | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert complete("st") == ["stats"]
    assert complete("plan", "--eff") == ["--effort"]
    assert complete("stats", "net") == ["net.pgmoprof"]


def test_an_unknown_shell_is_refused_with_those_that_are_known(capsys):
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "cmd.exe"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "'cmd.exe'" in error
    assert "bash, zsh, tcsh" in error


def test_without_shtab_the_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "pgmo: completion scripts are made by shtab, which is not installed: pip install shtab\n"
    )
