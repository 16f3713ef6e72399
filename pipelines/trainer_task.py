"""What each Ray Train worker runs: build the module, go on from the newest checkpoint, learn from its lanes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from pipelines.job import DIGESTS, MODEL, OUTCOME, Job, place_of
from pipelines.plan import Address
from pipelines.store import damage_in, json_bytes, write_atomically
from pipelines.threads import share_cores
from pipelines.trainer_error import keep_traceback
from pipelines.window import Feed

if TYPE_CHECKING:
    from trainers.step import Step


def work(config: dict[str, Any]) -> None:
    """The train function of the TorchTrainer; config: {job, board}. A failure is told on the board and raised on."""
    import ray
    import ray.train

    try:
        _work(config)
    except Exception as error:
        keep_traceback(error)
        if fault := damage_in(error):
            ray.get(config["board"].broken.remote(fault))
        rank = ray.train.get_context().get_world_rank()
        told = str(error).strip().splitlines() or [""]
        ray.get(config["board"].say.remote(f"trainer {rank} stopped: {type(error).__name__}: {told[0][:300]}"))
        raise


def _work(config: dict[str, Any]) -> None:
    import ray
    import ray.train

    from trainers import checkpoint

    job: Job = config["job"]
    board = config["board"]
    context = ray.train.get_context()
    rank, trainers = context.get_world_rank(), context.get_world_size()
    found, warnings = checkpoint.latest(job.checkpoints)
    done, cursor = place_of(found)
    if fault := ray.get(board.fault.remote()):
        # Evaluation met it and ended the trainers; Ray started them again.
        if rank == 0:
            _tell(job, {"status": "broken data", "message": fault, "step": done})
        return
    data = ray.train.get_dataset_shard("train")
    steps = begun(_unbroken(_steps(data, job.feed(job.plan()), trainers, cursor, done), board))

    import ray.train.torch

    from pipelines.held_out_batches import HeldOutBatches
    from pipelines.progress_board import StopPoll
    from pipelines.quiet import quiet_transformers
    from pipelines.tracking import MetricLogger
    from trainers.collectives import World
    from trainers.evaluation import evaluate
    from trainers.hooks import Hooks
    from trainers.loop import train
    from trainers.objectives import objective as make_objective
    from trainers.state import TrainState

    quiet_transformers()
    recipe = job.recipe
    device = ray.train.torch.get_device()
    share_cores(context.get_local_world_size())
    world = World.current(device)

    objective = make_objective(**recipe.objective.model_dump())
    module = objective.build(recipe.model, job.vocabulary, max_tokens=recipe.corpus.max_tokens, seed=recipe.seed)
    module.to(device)
    state = checkpoint.load(found, job.identity) if found else None

    logger = MetricLogger(job.tracking) if rank == 0 and job.tracking is not None else None
    digests = Digests(Path(job.folder) / DIGESTS, done) if rank == 0 and recipe.tracking.digests else None
    held_out = HeldOutBatches(job, rank, trainers)

    def log(step: int, metrics: dict[str, float]) -> None:
        named = {_metric(name): value for name, value in metrics.items()}
        if logger:
            logger.log(step, named)
        # A held-out score comes after the step's own numbers; the board keeps the newest of each.
        at = "held_out_step" if "held_out/loss" in named else "step"
        board.put.remote({at: step, **named})
        if at == "held_out_step":
            told = f", perplexity {named['held_out/perplexity']:.1f}" if "held_out/perplexity" in named else ""
            board.say.remote(f"held out after step {step}: loss {named['held_out/loss']:.3f}{told}")

    def save(state: TrainState) -> None:
        if rank == 0:
            checkpoint.save(job.checkpoints, state, job.identity)
            checkpoint.prune(job.checkpoints, recipe.train.keep_checkpoints, state.best[0] if state.best else None)
            if logger:
                logger.flush()
            board.put.remote({"checkpoint": state.step})
        world.wait()

    if rank == 0:
        for warning in warnings:
            board.say.remote(warning)
        if done:
            board.say.remote(
                f"going on after step {done} with {trainers} {'trainer' if trainers == 1 else 'trainers'}"
            )
        board.put.remote({"step": done, "trainers": trainers})
    if not done:
        before = evaluate(module, objective, held_out, world)
        if rank == 0:
            log(0, {f"heldout/{name}": value for name, value in before.items()})
    outcome = train(
        module,
        objective,
        steps,
        settings=recipe.train,
        state=state,
        world=world,
        seed=recipe.seed,
        pad_id=job.vocabulary.need("pad", "padding"),
        device=device,
        hooks=Hooks(
            log=log,
            digest=digests.put if digests else None,
            evaluate=lambda step: evaluate(module, objective, held_out, world),
            save=save,
            should_stop=StopPoll(board) if rank == 0 else None,
        ),
    )
    if rank == 0:
        if outcome.status == "finished":
            _export(job, module, outcome.state.step)
        message = (outcome.status == "broken data" and ray.get(board.fault.remote())) or outcome.message
        at = outcome.state
        numbers = {"step": at.step, "tokens": at.tokens, "seconds": at.seconds, "skipped": at.skipped}
        _tell(job, {"status": outcome.status, "message": message, **numbers})
        if logger:
            logger.close()


def _tell(job: Job, outcome: dict[str, Any]) -> None:
    """How the run ended, for the driver."""
    write_atomically(Path(job.folder) / OUTCOME, json_bytes(outcome))


def _metric(name: str) -> str:
    """A metric's name in the tracker: held_out/loss for heldout/loss, else train/<name>."""
    return f"held_out/{name[8:]}" if name.startswith("heldout/") else f"train/{name}"


def _steps(iterator: Any, feed: Feed, trainers: int, cursor: Address, first: int) -> Iterator[Step]:
    """The trainer's share of each global step from step `first` on."""
    from pipelines.stream import FILLER, flat_columns, next_address, steps
    from trainers.step import Lane, Step

    for number, rows in enumerate(steps(iterator, feed, trainers, cursor), first):
        lanes = []
        for i, (epoch, lane) in enumerate(zip(rows["epoch"].to_pylist(), rows["lane"].to_pylist())):
            if epoch != FILLER:
                columns, lengths = flat_columns(rows, i, feed.frame.columns)
                lanes.append(Lane(lane, columns, lengths))
        counts = {name: rows[f"step_{name}"][0].as_py() for name in feed.counted}
        yield Step(number, lanes, counts, next_address(rows), rows["step_tokens"][0].as_py())


def _unbroken(steps: Iterator[Step], board: Any) -> Iterator[Step]:
    """The same steps; a damaged shard is told on the board and becomes the StepsBroken that the loop knows."""
    import ray

    from trainers.step import StepsBroken

    try:
        yield from steps
    except Exception as error:
        if fault := damage_in(error):
            ray.get(board.broken.remote(fault))
            raise StepsBroken(fault) from None
        raise


def begun(steps: Iterator[Step]) -> Iterator[Step]:
    """The same steps; the first is fetched from now on, since a stream takes seconds to start, and so does a model."""
    first: Future[Step | None] = Future()

    def fetch() -> None:
        try:
            first.set_result(next(steps, None))
        except BaseException as error:
            first.set_exception(error)

    # A daemon: a trainer whose model cannot be built ends without waiting for the stream.
    Thread(target=fetch, daemon=True).start()

    def all_of_them() -> Iterator[Step]:
        if (step := first.result()) is not None:
            yield step
            yield from steps

    return all_of_them()


class Digests:
    """One line per step in digests.jsonl: {"step": 1, "digest": "..."}; what a restart replays is written again."""

    def __init__(self, path: Path, done: int) -> None:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        # A kill may have torn the last line; its step is replayed.
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= done]
        write_atomically(path, "".join(line + "\n" for line in kept).encode())
        self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  open for the whole run

    def put(self, step: int, digest: str) -> None:
        """Record the digest of every tensor byte that the module received in a step."""
        self._file.write(json.dumps({"step": step, "digest": digest}) + "\n")


def _export(job: Job, module: Any, step: int) -> None:
    from pipelines.card import model_card
    from pipelines.export import tokenizer_of
    from trainers.export import export

    export(module, Path(job.folder) / MODEL, tokenizer_of(job), model_card(job, step))
