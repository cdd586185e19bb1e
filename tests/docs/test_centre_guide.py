"""The guide to the centre names every field of a job, every role and only commands there are."""

import json
from pathlib import Path

import pytest

from dure.api.base import read_document
from dure.api.jobs import JobSpec
from dure.cli.centre import documents
from dure.domain.fleet.accounts import Role

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "centre.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_every_field_of_a_job_is_in_the_table_in_its_order() -> None:
    fields = [field.alias or name for name, field in JobSpec.model_fields.items()]
    assert first_cells(section("Jobs")) == fields


def test_every_role_is_in_the_table() -> None:
    assert first_cells(section("Who you are")) == [role.value for role in Role]


@pytest.mark.parametrize("name", ["train.yaml", "serve.yaml"])
def test_the_examples_are_jobs(name: str) -> None:
    for spec in documents(ROOT / "examples" / "jobs" / name, JobSpec):
        assert read_document(JobSpec, json.dumps(spec.model_dump(mode="json"))) == spec
