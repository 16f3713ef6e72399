"""Every fault of a file for `ray up` that the doctor knows, planted and found; no cloud and no Ray is asked."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from pipelines.doctor_cluster import check_images, cluster_findings
from pipelines.recipe import load_recipe

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "cluster.yaml").read_text("utf-8"))


@pytest.fixture
def faults(tmp_path):
    """What is wrong with the shipped file once `spoil` has changed it."""

    def check(spoil, recipe=None):
        config = copy.deepcopy(CONFIG)
        spoil(config)
        path = tmp_path / "spoilt.yaml"
        path.write_text(yaml.safe_dump(config), "utf-8")
        return [str(finding) for finding in cluster_findings(path, recipe) if finding.do]

    return check


def kind(name, **changes):
    return lambda config: config["available_node_types"][name].update(changes)


def without_mode(config):
    config["docker"]["run_options"] = [o for o in config["docker"]["run_options"] if "AUTH" not in o]


def mode_on_the_head_alone(config):
    without_mode(config)
    config["docker"]["head_run_options"] = ["--env RAY_AUTH_MODE=token"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda c: c.update(regoin="x"), "regoin"),
        (lambda c: c.update(max_workers="12"), "max_workers: '12' is not of type 'integer'"),
        (lambda c: c.update(head_node_type="boss"), "head_node_type"),
        (lambda c: c["provider"].pop("region"), "provider.region missing for aws"),
        (lambda c: c["provider"].update(type="gcp"), "provider.availability_zone, provider.project_id missing for gcp"),
        (kind("train", min_workers=5), "train: min_workers 5 is above max_workers 4"),
        (kind("head", resources={"CPU": 4}), "head: the head has CPUs to give away (4)"),
        (kind("head", resources={}), "head: the head has CPUs to give away (those of its machine)"),
        (kind("corrupt", labels={}), "at most 0 nodes with the label role: corrupt"),
        (kind("corrupt", max_workers=0), "at most 0 nodes with the label role: corrupt"),
        (without_mode, "authentication: head unsaid, workers unsaid"),
        (mode_on_the_head_alone, "authentication: head token, workers unsaid"),
        (lambda c: c["file_mounts"].pop("/home/ray/.ray/auth_token"), "token, but no node gets one"),
        (lambda c: c["docker"].update(image="rayproject/ray:2.9.0-py311"), "2.9.0 of Ray in its tag; use an image"),
        (lambda c: c["docker"].update(image="rayproject/ray:latest"), "no release of Ray in its tag"),
        (lambda c: c["docker"].update(image="rayproject/ray:2.60.0-py312-cpu"), "images of py311 and py312"),
    ],
)
def test_a_planted_fault_is_found_and_alone(faults, spoil, told):
    (line,) = faults(spoil)
    assert told in line and line.startswith("!! ") and "; " in line


def test_more_nodes_at_least_than_at_most(faults):
    def spoil(config):
        config["max_workers"] = 2
        kind("corrupt", min_workers=3)(config)

    (line,) = faults(spoil)
    assert "max_workers" in line


@pytest.mark.parametrize(
    ("spoil", "settings", "told"),
    [
        (lambda c: None, ["cluster.trainers=16"], ""),
        (kind("train", max_workers=1), [], "8 trainers of roberta need a GPU each, and there are at most 4"),
        (kind("train", resources={"CPU": 48}), [], ""),
        (kind("train", resources={"CPU": 48}), ["cluster.gpus=true"], "need a GPU each, and there are at most 0"),
        (lambda c: c.update(max_workers=2), [], "max_workers 2 is used up by the trainers' nodes"),
        (lambda c: None, ["cluster.corruptors=400"], "at most 320 CPUs"),
    ],
)
def test_a_recipe_at_the_largest_scale(faults, spoil, settings, told):
    found = faults(spoil, load_recipe("roberta", settings))
    assert bool(found) == bool(told) and all(told in line for line in found[:1])


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "provider: {type: aws}\n", "\x00"])
def test_what_is_no_such_file_is_one_line(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text, "utf-8")
    (line,) = cluster_findings(path, None)
    assert line.do
    (gone,) = cluster_findings(tmp_path / "none.yaml", None)
    assert "No such file" in gone.what


def test_an_image_of_ones_own_may_say_the_release_in_its_tag():
    config = {"docker": {"image": "registry.example.com:5000/papermoth:ray-2.60.0"}, "available_node_types": {}}
    assert [bool(found.do) for found in check_images(config, "2.60.0")] == [False]
    bare = {"available_node_types": {}}
    assert "setup_commands" in next(iter(check_images(bare, "2.60.0"))).what
