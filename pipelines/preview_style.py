"""How the page of a preview looks: in light and dark, on a phone, on paper."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.preview_rows import FOREIGN_TEXT, HIDDEN, INSERTED, KEPT, MOVED, RANDOM, REMOVED, SPECIAL

GROUND = "page"
"""The colours of plain text."""

LIGHT: dict[str, tuple[str, str]] = {
    GROUND: ("#1c1c1a", "#ffffff"),
    "dim": ("#5c5c58", "#ffffff"),
    "under": ("#00596b", "#ffffff"),
    HIDDEN: ("#ffffff", "#b3261e"),
    RANDOM: ("#231c00", "#ffd95a"),
    KEPT: ("#06270d", "#a9e0b0"),
    INSERTED: ("#05283d", "#b5dffb"),
    SPECIAL: ("#ffffff", "#4a3fb5"),
    MOVED: ("#43104a", "#f3d6f7"),
    FOREIGN_TEXT: ("#33260a", "#ecdfc4"),
    REMOVED: ("#7a1510", "#fde3e0"),
}
"""Text and ground of each kind of text, on a light page."""

DARK: dict[str, tuple[str, str]] = {
    GROUND: ("#e9e8e4", "#17181b"),
    "dim": ("#a5a49e", "#17181b"),
    "under": ("#7fd3e6", "#17181b"),
    HIDDEN: ("#2b0502", "#ff8f85"),
    RANDOM: ("#231c00", "#e6c04a"),
    KEPT: ("#06270d", "#7fc98a"),
    INSERTED: ("#d6efff", "#154a6b"),
    SPECIAL: ("#120b4a", "#b9b1ff"),
    MOVED: ("#fbe3ff", "#63266d"),
    FOREIGN_TEXT: ("#f5ead2", "#57471f"),
    REMOVED: ("#ffcdc8", "#5a1d18"),
}
"""The same on a dark page."""


def style() -> str:
    """The style sheet."""
    kinds = "\n".join(
        f".{name} {{ color: var(--{name}); background: var(--{name}-ground); }}" for name in LIGHT if name in _BOXES
    )
    return f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
{_RULES}
{kinds}
"""


_BOXES = (HIDDEN, RANDOM, KEPT, INSERTED, SPECIAL, MOVED, FOREIGN_TEXT, REMOVED)


def _variables(colours: Mapping[str, tuple[str, str]]) -> str:
    return " ".join(f"--{name}: {text}; --{name}-ground: {ground};" for name, (text, ground) in colours.items())


_RULES = """
* { box-sizing: border-box; }
body { margin: 0; color: var(--page); background: var(--page-ground); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.125rem; margin: 0 0 0.25rem; overflow-wrap: anywhere; }
p, dd, td { overflow-wrap: anywhere; }
.note, dt, figcaption, th { color: var(--dim); font-weight: normal; }
.note { margin: 0.25rem 0; }
section { margin: 1.5rem 0; padding-top: 1rem; border-top: 1px solid var(--dim); }
dl { margin: 0; }
dl > div { display: grid; grid-template-columns: 6rem 1fr; gap: 0 0.75rem; padding: 0.25rem 0; }
dd { margin: 0; min-width: 0; }
.text { line-height: 1.7; }
.kind { border-radius: 0.2rem; padding: 0.05rem 0.2rem; -webkit-box-decoration-break: clone;
  box-decoration-break: clone; unicode-bidi: isolate; text-decoration: none; }
.removed { text-decoration: line-through; }
.moved { text-decoration: underline dotted; }
.stack { display: inline-flex; flex-direction: column; align-items: flex-start; vertical-align: baseline;
  max-width: 100%; margin-right: 0.15rem; }
.below { color: var(--under); font-size: 0.8125rem; line-height: 1.3; padding-left: 0.2rem; unicode-bidi: isolate; }
.was { text-decoration: line-through; }
.legend { display: flex; flex-wrap: wrap; gap: 0.35rem 1.25rem; list-style: none; margin: 0.5rem 0; padding: 0; }
.skip { position: absolute; left: -100rem; }
.skip:focus { position: static; }
a { color: var(--under); }
:focus-visible { outline: 3px solid var(--under); outline-offset: 2px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
figure { display: inline-block; vertical-align: top; margin: 0.5rem 1.5rem 0.5rem 0; max-width: 100%; }
svg { display: block; max-width: 100%; height: auto; }
svg .seen { fill: var(--under); }
svg .field { fill: none; stroke: var(--dim); stroke-width: 0.5; }
svg text { fill: var(--page); font: 10px system-ui, sans-serif; }
details { font-size: 0.875rem; max-width: 40rem; }
summary { cursor: pointer; padding: 0.25rem 0; }
table { border-collapse: collapse; }
td, th { text-align: left; vertical-align: top; padding: 0.15rem 0.75rem 0.15rem 0; }
@media (max-width: 36rem) { dl > div { grid-template-columns: 1fr; } }
@media print { .skip, details { display: none; } section { break-inside: avoid; } }
"""
