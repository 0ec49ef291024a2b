import pathlib

import pytest

import koeldb


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: pathlib.Path):
    with koeldb.Db(path) as db:
        yield db
