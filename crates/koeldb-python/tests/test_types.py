"""Types: a program that uses the module passes `mypy --strict`; the stubs match the module."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
FOLDER = pathlib.Path(__file__).resolve().parents[1]


def run(*words):
    ran = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=FOLDER)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_program_with_types():
    run("mypy", "--strict", "examples/birds.py")


def test_the_program_runs(path):
    ran = subprocess.run(
        [sys.executable, "examples/birds.py", path], capture_output=True, text=True, cwd=FOLDER
    )
    assert ran.returncode == 0 and ran.stdout.startswith("3 Corvus\n"), ran.stdout + ran.stderr


def test_stubs():
    pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    run(
        "mypy.stubtest",
        "koeldb",
        "--mypy-config-file",
        "pyproject.toml",
        "--allowlist",
        "tests/stubtest.allowlist",
        "--ignore-unused-allowlist",
    )
