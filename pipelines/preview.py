"""What a recipe does to real text, in the terminal or as one page: the noise of training, without Ray."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from corruption.errors import InputError
from corruption.vocabulary import Vocabulary
from pipelines.preview_page import Page
from pipelines.preview_passages import Passages, find_tokenizer, passages_of
from pipelines.preview_rates import count, rates
from pipelines.preview_rows import Row
from pipelines.preview_rows import rows as rows_of
from pipelines.preview_spelling import Spelling
from pipelines.preview_text import print_page
from pipelines.readable import counted, shown
from pipelines.recipe import Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def preview(
    recipe: Recipe,
    *,
    rows: int = 5,
    text: str | None = None,
    epoch: int | None = None,
    step: int | None = None,
    lane: int | None = None,
    html: Path | None = None,
    width: int | None = None,
    file: IO[str] | None = None,
) -> None:
    """Show passages before and after corruption, and the rates: in the terminal, or in the page `html`.

    rows: how many passages of the recipe's corpus (or of `text`) in the noise of `epoch` (0 if not given); with `step`,
    how many of each microbatch that the run's step gets (or of that of one `lane`). width: columns of the terminal.
    Random: the noise of recipe.seed and the epoch; with the same tokenizer, training sees these very bytes.
    Raises InputError for options that do not go together, as corpus, tokenizer, chain and store do, and when there is
    no text to show.
    """
    _check(text, epoch, step, lane, html, width)
    if html is not None:
        from pipelines.preview_html import check_place

        check_place(html)
    page = _stepped(recipe, step, lane, rows) if step is not None else _looked(recipe, text, epoch or 0, rows)
    if html is None:
        print_page(page, width=width, file=file)
        return
    from pipelines.preview_html import write_page

    write_page(page, html)
    print(f"wrote {shown(html)}: {counted(len(page.rows), 'passage')}", file=file)


def _check(
    text: str | None, epoch: int | None, step: int | None, lane: int | None, html: Path | None, width: int | None
) -> None:
    if step is not None:
        for option, value, why in (("--text", text, "passages"), ("--epoch", epoch, "epoch")):
            if value is not None:
                raise InputError(option, f"a step of the run has its own {why}", "leave out this option or --step")
    elif lane is not None:
        raise InputError("--lane", "there are lanes in a step only", "give --step too")
    if html is not None and width is not None:
        raise InputError("--width", "a page fits itself to the window", "leave out this option or --html")


def _looked(recipe: Recipe, text: str | None, epoch: int, rows: int) -> Page:
    tokenizer, note = find_tokenizer(recipe)
    passages = passages_of(recipe, tokenizer, text, rows, epoch)
    heading = f"recipe {recipe.name}, seed {recipe.seed}, epoch {epoch}; {note}"
    return _page(recipe, tokenizer, heading, [passages], passages.notes)


def _stepped(recipe: Recipe, step: int, lane: int | None, rows: int) -> Page:
    from pipelines.preview_step import passages_of_step, prepared_job
    from pipelines.tokenizers import load_tokenizer

    job, store = prepared_job(recipe)
    found, lines = passages_of_step(job, step, lane, rows)
    heading = f"recipe {recipe.name}, seed {recipe.seed}, step {step}; store {shown(Path(store))}"
    after_end = f"the run ends before this step: its last one is step {recipe.train.steps - 1}"
    notes = (after_end,) if step >= recipe.train.steps else ()
    tokenizer = load_tokenizer(str(Path(store) / "tokenizer"))
    return _page(recipe, tokenizer, heading, found, notes, tuple(lines))


def _page(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerFast,
    heading: str,
    found: list[Passages],
    notes: tuple[str, ...],
    microbatches: tuple[str, ...] = (),
) -> Page:
    """The page of passages that were found; what it came to is counted over all of them, shown or not."""
    vocabulary, spelling = Vocabulary.from_tokenizer(tokenizer), Spelling(tokenizer)
    frame = recipe.frame()
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    for part in found:
        counts.update(count(part.before, part.after, vocabulary))
        rows += rows_of(
            part.after,
            vocabulary,
            spelling,
            titles=part.titles,
            places=part.places,
            sentence_start=part.sentence_start,
            frame=frame,
        )
    return Page(
        recipe.name,
        heading,
        notes,
        tuple(rows),
        tuple(rates(recipe.corruption, counts)),
        spelling.mask,
        microbatches,
    )
