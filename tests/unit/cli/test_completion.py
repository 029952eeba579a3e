from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from app.cli.completion import SHELLS, completion_command
from app.cli.root import COMMANDS, root


def completed(*words: str) -> list[str]:
    """What a shell is offered after these words, the last of which is being typed."""
    asked = ShellComplete(root, {}, "vmscaler", "_VMSCALER_COMPLETE")
    return [item.value for item in asked.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_the_script_for_one_of_its_own(shell: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(completion_command, [shell])
    assert done.exit_code == 0
    assert f"_VMSCALER_COMPLETE={shell}_complete" in done.output
    script = tmp_path / "script"
    script.write_text(done.output)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(script)], check=True, timeout=30)


def test_another_shell_is_refused_by_name() -> None:
    done = CliRunner().invoke(completion_command, ["tcsh"])
    assert done.exit_code == 2
    assert "tcsh" in done.output


def test_commands_are_completed_by_their_beginning() -> None:
    assert set(completed("")) == {*COMMANDS, "guest"}
    assert completed("dr") == ["drain"]
    assert completed("gu") == ["guest"]
    assert completed("no-such") == []


def test_subcommands_and_options_are_completed() -> None:
    assert "show" in completed("vm", "s")
    assert "--for" in completed("pause", "--f")
    assert completed("completion", "z") == ["zsh"]
    assert "--config" in completed("--c")


def test_listing_the_commands_imports_none_of_them() -> None:
    code = (
        "import os, sys\n"
        "os.environ |= {'_VMSCALER_COMPLETE': 'bash_complete', 'COMP_WORDS': 'vmscaler '}\n"
        "os.environ['COMP_CWORD'] = '1'\n"
        "from app.cli.root import root\n"
        "try:\n    root.main(args=[], prog_name='vmscaler', standalone_mode=False)\n"
        "except SystemExit:\n    pass\n"
        "print([m for m in sys.modules if m.startswith('app.cli.') and m != 'app.cli.root'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "plain,status" in done.stdout


def test_the_command_is_among_the_others() -> None:
    context = click.Context(root)
    assert root.get_command(context, "completion") is completion_command
