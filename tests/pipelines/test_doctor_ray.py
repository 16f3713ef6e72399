"""What the doctor says of a running Ray, whose nodes answer for themselves."""

from __future__ import annotations

from pipelines import doctor_ray as module
from pipelines.doctor_ray import (
    ALIKE,
    Node,
    Nodes,
    answer_findings,
    asked,
    check_door,
    check_mode,
    nodes_findings,
    places_of,
    reached,
)
from pipelines.recipe import load_recipe

NODES = tuple(Node(name, name, role, {"CPU": 8.0, "memory": 1e9}) for name, role in (("a", "train"), ("b", "corrupt")))


def answer(missing=(), **versions):
    return {"versions": dict.fromkeys(ALIKE, "1.0") | versions, "missing": list(missing)}


def said(*answers):
    return [str(finding) for finding in answer_findings(NODES, answers)]


def test_nodes_that_agree_are_one_line():
    assert said(answer(), answer()) == ["ok 2 nodes: the code runs, and each sees what the recipe reads"]


def test_what_is_wrong_is_named_with_its_node():
    (torch,) = [line for line in said(answer(), answer(torch="2.0")) if line.startswith("!!")]
    assert torch == "!! torch differs: 1.0 on a, 2.0 on b; install all nodes with constraints.txt"
    (place,) = said(answer(), answer(["/mnt/x"]))
    assert place.startswith("!! /mnt/x is not seen by b; put it on storage that every node sees")
    (code,) = said(answer(), ModuleNotFoundError("long\ntrace\nNo module named 'pipelines'"))
    assert code.startswith("!! node b cannot run the code (No module named 'pipelines'); submit with runtime_env.yaml")
    assert "numba differs: 1.0 on a, none on b" in said(answer(), answer(numba=None))[0]


def test_the_mode_is_to_be_said(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert check_mode().do
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert str(check_mode()) == "ok RAY_AUTH_MODE is token"


def test_a_port_where_nobody_listens_is_told_at_once():
    nodes, found = reached("127.0.0.1:1")
    assert nodes is None and found[-1].what.startswith("--address 127.0.0.1:1: nobody answers (") and found[-1].do
    assert check_door("auto") is None and check_door("ray://head:10001") is None


def test_no_cluster_is_one_line(monkeypatch):
    class Away:
        def __init__(self, address):
            pass

        def __enter__(self):
            raise RuntimeError("Version mismatch: the cluster\nwas started with Ray 2.9")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("pipelines.ray_session.RaySession", Away)
    nodes, found = reached("somewhere")
    assert nodes is None
    assert found[-1].what == "--address somewhere: Version mismatch: the cluster was started with Ray 2.9"
    assert found[-1].do


def test_the_largest_node_must_hold_a_trainer(monkeypatch):
    monkeypatch.setattr(module, "asked", lambda nodes, places: [answer() for _ in nodes])
    monkeypatch.setattr("pipelines.ray_session.RaySession.start", lambda self: None)
    recipe = load_recipe("demo", ["cluster.trainers=2"])
    assert [f.do for f in nodes_findings(Nodes("auto", NODES), recipe, 1 << 20)] == [""] * 3
    found = nodes_findings(Nodes("auto", NODES), recipe, 1 << 40)
    assert [f.what[:25] for f in found if f.do] == ["the largest node has 1 GB"]


def test_what_every_node_must_see(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    recipe = load_recipe("demo", ["corpus={store: store}", "tokenizer={}", "model.init=org/of-the-hub"])
    assert places_of(recipe) == [str(tmp_path), str(tmp_path / "store")]


def test_a_ray_that_runs_is_asked_node_by_node(local_ray, tmp_path):
    nodes, found = reached("auto")
    assert nodes is not None and len(nodes.all) == 1 and "1 node (1 no role)" in found[-1].what
    (told,) = asked(nodes.all, [str(tmp_path), str(tmp_path / "gone")])
    assert told["missing"] == [str(tmp_path / "gone")] and told["versions"]["torch"]


def test_a_node_that_is_gone_is_an_answer_too(local_ray, monkeypatch):
    monkeypatch.setattr(module, "PROBE_SECONDS", 5.0)
    (fault,) = asked([Node("0" * 56, "gone", "", {})], [])
    assert isinstance(fault, Exception)
