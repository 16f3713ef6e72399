"""The shipped cluster.yaml is one that `ray up` takes, on either cloud, as far as can be told without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pipelines.doctor_cluster import cluster_findings
from pipelines.doctor_scale import most
from pipelines.recipe import load_recipe
from pipelines.shipped import shipped_recipes

PATH = Path(__file__).parents[2] / "cluster.yaml"
TEXT = PATH.read_text("utf-8")
ASKING = [name for name in shipped_recipes() if load_recipe(name).train is not None]


def on_gcp() -> str:
    """The file after the edit that its first lines tell of."""
    edited, lines = re.subn(r"\*\w+  # or (\*gcp\w*)$", r"\1", TEXT, flags=re.MULTILINE)
    assert lines == 2, "the two lines to edit"
    return edited.replace("my-project", "someones-project")


@pytest.fixture(params=["aws", "gcp"])
def file(request, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(TEXT if request.param == "aws" else on_gcp(), "utf-8")
    assert yaml.safe_load(path.read_text())["provider"]["type"] == request.param
    return path


def test_nothing_is_found_on_either_cloud(file):
    assert [str(finding) for finding in cluster_findings(file, None) if finding.do] == []


def test_every_shipped_recipe_finds_its_resources(file):
    assert {"bert-mlm", "demo", "roberta"} <= set(ASKING)
    for name in ASKING:
        found = list(cluster_findings(file, load_recipe(name)))
        assert [str(finding) for finding in found if finding.do] == [], name
        assert any(f" of {name} on " in finding.what for finding in found)


def test_head_does_no_work_and_roles_are_labelled(file):
    config = yaml.safe_load(file.read_text("utf-8"))
    types = config["available_node_types"]
    assert types[config["head_node_type"]]["resources"]["CPU"] == 0
    assert {name: kind["labels"]["role"] for name, kind in types.items()} == {name: name for name in types}
    assert most(config, "corrupt") > 0 and most(config, "train") > 0


def test_the_clouds_differ_in_machines_alone(file):
    types = yaml.safe_load(file.read_text("utf-8"))["available_node_types"]
    here = yaml.safe_load(TEXT)["available_node_types"]
    for name, kind in types.items():
        assert {**kind, "node_config": None} == {**here[name], "node_config": None}


def test_the_token_is_mounted_and_written_nowhere():
    config = yaml.safe_load(TEXT)
    assert any(path.endswith(".ray/auth_token") for path in config["file_mounts"])
    assert not re.search(r"RAY_AUTH_TOKEN=|[0-9a-f]{32}", TEXT)
