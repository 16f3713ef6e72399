"""Numbers as people read them: 12.3 Mtok, 1m12s, 6.31."""

from __future__ import annotations

import math
from pathlib import Path

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def amount(value: float, unit: str = "") -> str:
    """Write a count or a rate with a metric prefix: amount(12_345_678, "tok") is "12.3 Mtok"."""
    if not math.isfinite(value):
        return f"{value} {unit}".rstrip()
    for scale, prefix in _PREFIXES:
        # 999.5 of the prefix below would be written 1000
        if abs(value) >= 0.9995 * scale:
            return f"{_digits(value / scale)} {prefix}{unit}"
    text = str(int(value)) if float(value).is_integer() else _digits(value)
    return f"{text} {unit}".rstrip()


def short(value: float) -> str:
    """Write a count in as few characters as an axis allows: 600, 1.2k, 20k, 1.5M."""
    for scale, prefix in _PREFIXES:
        if math.isfinite(value) and abs(value) >= scale:
            return f"{value / scale:.3g}{prefix}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """Write a time span with its two largest units: 0.4s, 12s, 1m12s, 3h05m, 2d04h."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def number(value: object) -> str:
    """Write a value for a progress line: floats with three digits, two decimals from 1 to 100."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ") if abs(value) >= 10_000 else str(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 1 <= abs(value) < 100:
        return f"{value:.2f}"
    return f"{value:.3g}" if abs(value) < 1e3 or abs(value) >= 1e15 else amount(value)


def share(value: float) -> str:
    """Write a share as a percentage: whole numbers, except below one percent."""
    if not math.isfinite(value):
        return str(value)
    percent = 100 * value
    return f"{percent:.1f}%" if 0 < percent < 0.95 else f"{percent:.0f}%"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if size >= 0.95 else f"{value:.2g}"


def shown(path: Path) -> str:
    """A path below the working directory as people type it, any other whole."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 trainer, 2 trainers."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
