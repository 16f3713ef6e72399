"""The shipped cluster.yaml is one that `ray up` takes, as far as can be told without a cloud."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "cluster.yaml").read_text("utf-8"))


def validated(config):
    """What Ray itself makes of it (a private door: the public one starts machines)."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


def own_faults(config):
    """What Ray's schema lets through and `ray up` or the scheduler then trips over."""
    faults = [] if config["provider"].get("region") else ["provider.region is missing"]
    for name, kind in config["available_node_types"].items():
        if kind.get("min_workers", 0) > kind.get("max_workers", config["max_workers"]):
            faults.append(f"{name}: min_workers above max_workers")
    return faults


def test_ray_takes_it():
    prepared = validated(CONFIG)
    assert set(prepared["available_node_types"]) == {"head", "corrupt", "train"}
    assert own_faults(CONFIG) == []


@pytest.mark.parametrize("spoil", [lambda c: c.update(regoin="x"), lambda c: c.update(max_workers="12")])
def test_the_check_can_fail(spoil):
    config = copy.deepcopy(CONFIG)
    spoil(config)
    with pytest.raises(Exception, match=r"regoin|12"):
        validated(config)


def test_own_checks_can_fail():
    config = copy.deepcopy(CONFIG)
    config["available_node_types"]["train"]["min_workers"] = 99
    del config["provider"]["region"]
    assert len(own_faults(config)) == 2


def test_head_does_no_work_and_roles_are_labelled():
    types = CONFIG["available_node_types"]
    assert types[CONFIG["head_node_type"]]["resources"]["CPU"] == 0
    assert {name: kind["labels"]["role"] for name, kind in types.items()} == {name: name for name in types}


def test_authentication_is_said_aloud_and_ray_is_the_tested_release():
    assert "--env RAY_AUTH_MODE=token" in CONFIG["docker"]["run_options"]
    assert any(path.endswith(".ray/auth_token") for path in CONFIG["file_mounts"])
    images = [CONFIG["docker"]["image"]]
    images += [
        kind["docker"]["worker_image"] for kind in CONFIG["available_node_types"].values() if "docker" in kind
    ]
    assert all(image.startswith("rayproject/ray:2.60.0-py311") for image in images)
