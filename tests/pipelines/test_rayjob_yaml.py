"""The manifest for KubeRay says what the other papers say, in the operator's words, and holds no secret."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml

from pipelines.recipe import load_recipe
from pipelines.shipped import shipped_recipes
from tests.architecture.test_docs import parse

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "rayjob.yaml").read_text("utf-8")
RAY = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)[1]

KNOWN = {
    "spec": {
        *("entrypoint", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "runtimeEnvYAML"),
        *("submitterPodTemplate", "rayClusterSpec"),
    },
    "cluster": {
        *("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec", "workerGroupSpecs"),
    },
    "group": {
        *("groupName", "replicas", "minReplicas", "maxReplicas", "labels", "rayStartParams", "template"),
    },
}
"""Those of the operator's fields that the manifest uses; another one is a slip of the pen, or added on purpose."""


def load():
    return yaml.safe_load(TEXT)


def groups(manifest):
    """The head and the workers."""
    cluster = manifest["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def containers(manifest):
    """Every container of every pod, with the volumes of its pod."""
    templates = [manifest["spec"]["submitterPodTemplate"], *(group["template"] for group in groups(manifest))]
    return [(one, pod["spec"].get("volumes", [])) for pod in templates for one in pod["spec"]["containers"]]


def faults(manifest):
    """What the operator would refuse, or a run would trip over."""
    found = []
    spec = manifest["spec"]
    cluster = spec["rayClusterSpec"]
    if (manifest["apiVersion"], manifest["kind"]) != ("ray.io/v1", "RayJob"):
        found.append("it is no RayJob")
    found += sorted(set(spec) - KNOWN["spec"]) + sorted(set(cluster) - KNOWN["cluster"])
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,46}", manifest["metadata"]["name"]):
        found.append("the name is none of DNS")
    for group in groups(manifest):
        name = group.get("groupName", "head")
        found += [f"{name}: {key}" for key in sorted(set(group) - KNOWN["group"])]
        # KubeRay refuses labels there since it has a field for them, and anything that is no string.
        if "labels" in group["rayStartParams"] or not all(isinstance(v, str) for v in group["rayStartParams"].values()):
            found.append(f"{name}: rayStartParams")
        if group["labels"] != {"role": name}:
            found.append(f"{name}: its label is not its role")
        if not group.get("minReplicas", 0) <= group.get("replicas", 1) <= group.get("maxReplicas", 1):
            found.append(f"{name}: replicas")
        if group["template"]["spec"]["restartPolicy"] != "Never":
            found.append(f"{name}: the autoscaler's second version wants restartPolicy Never")
    if cluster["headGroupSpec"]["rayStartParams"].get("num-cpus") != "0":
        found.append("the head has CPUs to give away")
    if cluster["rayVersion"] != RAY:
        found.append("rayVersion is not the pinned one")
    for one, volumes in containers(manifest):
        if not one["image"].endswith(f":ray-{RAY}"):
            found.append(f"{one['name']}: its image is of another Ray")
        if {mount["name"] for mount in one.get("volumeMounts", [])} - {volume["name"] for volume in volumes}:
            found.append(f"{one['name']}: a mount without its volume")
    for env in [cluster["autoscalerOptions"]["env"], *(one["env"] for one, _ in containers(manifest))]:
        by_name = {item["name"]: item for item in env}
        if by_name.get("RAY_AUTH_MODE") != {"name": "RAY_AUTH_MODE", "value": "token"}:
            found.append("a container that does not say the authentication mode")
        if set(by_name.get("RAY_AUTH_TOKEN", {})) != {"name", "valueFrom"}:
            found.append("a token that is not taken from a secret")
    return found


def test_nothing_is_wrong_with_it():
    assert faults(load()) == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda m: m.update(apiVersion="ray.io/v1alpha1"), "no RayJob"),
        (lambda m: m["spec"].update(entryPoint="x"), "entryPoint"),
        (lambda m: groups(m)[1].update(rayStartParams={"labels": "role=corrupt"}), "corrupt: rayStartParams"),
        (lambda m: groups(m)[0].update(rayStartParams={"num-cpus": 0}), "head: rayStartParams"),
        (lambda m: groups(m)[0].update(rayStartParams={}), "the head has CPUs"),
        (lambda m: groups(m)[2].update(labels={}), "train: its label"),
        (lambda m: groups(m)[2].update(minReplicas=9), "train: replicas"),
        (lambda m: m["spec"]["rayClusterSpec"].update(rayVersion="2.9.0"), "rayVersion"),
        (lambda m: containers(m)[0][0].update(image="papermoth:latest"), "another Ray"),
        (lambda m: containers(m)[1][0]["env"][1].pop("valueFrom"), "not taken from a secret"),
        (lambda m: containers(m)[1][0]["env"].pop(0), "authentication mode"),
    ],
)
def test_each_fault_would_be_found(spoil, told):
    manifest = copy.deepcopy(load())
    spoil(manifest)
    assert any(told in fault for fault in faults(manifest))


def test_the_command_is_the_one_of_the_pages():
    entrypoint = load()["spec"]["entrypoint"]
    parse(entrypoint)
    shown = "papermoth pretrain my-run.yaml --address auto --log json --out /mnt/shared/runs/my-run"
    assert entrypoint.replace("/mnt/shared/my-run.yaml", "my-run.yaml") == shown
    assert shown in (ROOT / "docs" / "clusters.md").read_text("utf-8").replace("\\\n", " ").replace("  ", " ")


def test_its_environment_is_that_of_other_jobs():
    from ray.runtime_env import RuntimeEnv

    given = yaml.safe_load(load()["spec"]["runtimeEnvYAML"])
    assert given == {"env_vars": yaml.safe_load((ROOT / "runtime_env.yaml").read_text("utf-8"))["env_vars"]}
    RuntimeEnv(**given)


def test_shipped_recipes_find_their_gpus():
    train = groups(load())[2]
    (one,) = train["template"]["spec"]["containers"]
    gpus = int(one["resources"]["limits"]["nvidia.com/gpu"]) * train["maxReplicas"]
    assert all(load_recipe(name).cluster.trainers <= gpus for name in shipped_recipes())


def test_the_page_builds_its_image():
    page = (ROOT / "docs" / "clusters.md").read_text("utf-8")
    assert f"FROM rayproject/ray:{RAY}-py311-gpu\n" in page and f"docker build -t papermoth:ray-{RAY} " in page
