"""The programs of the book's chapter and of the README, one after another in one directory."""

import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("page", "least"), [("docs/python.md", 10), ("README.md", 1)])
def test_the_programs_of_a_page(page, least, tmp_path, monkeypatch):
    found = [folder / page for folder in (FOLDER.parents[1], FOLDER) if (folder / page).exists()]
    if not found:
        pytest.skip("the package is tested without the book")
    if page == "docs/python.md":
        pytest.importorskip("numpy")
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    programs = re.findall(r"^```python\n(.*?)^```", found[0].read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) >= least
    for program in programs:
        exec(compile(program, page, "exec"), names)
