"""Where sentences start in plain text, by rules that hold across languages.

A sentence ends

- at a line break;
- after 。！？ and their like, with the quotes and brackets that close there, whatever follows;
- after . ! ? … and their like in other scripts, when white space follows and the next word does not begin
  with a small letter. One full stop does not end a sentence after an initial, after an abbreviation that is
  always followed by something (Dr., e.g.), after one that stands before numbers (No. 5), or after a number
  that begins a line (1. Aims).

The next sentence starts at the next character that is not white space.

Source: Unicode Standard Annex 29, section 5 (rules SB6 to SB11). Deviations: abbreviations are known;
single line breaks are borders, since encyclopaedias and crawled text put a paragraph on a line.
"""

from __future__ import annotations

import re

_LINE = "\n\r\u2028\u2029"
_STOPS = ".!?…‥؟۔։።፧፨‼⁇⁈⁉᠃᠉"
_WIDE = "。！？｡।॥။៕"
_CLOSERS = re.escape("\"'”’»›)]}」』）】〉》］｝〕")
_OPENERS = "\"'“‘«‹„‚([{「『（【〈《¿¡—–-*_#•"
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

# One leading character class lets the search skip; possessive runs that start only at their first stop keep
# it linear.
_BORDER = re.compile(
    rf"[{_LINE}{_WIDE}．{_STOPS}](?:"
    rf"(?<=[{_LINE}])\s*+"
    rf"|(?<=[{_WIDE}．])(?<!．(?=\d))[{_WIDE}．{_STOPS}]*+[{_CLOSERS}]*+\s*+"
    rf"|(?<=[{_STOPS}])(?<![{_STOPS}]{{2}})(?P<more>[{_STOPS}]*+)[{_CLOSERS}]*+"
    rf"(?:(?P<space>\s++)|(?<=[!?])(?=[{_UNSPACED}])))"
)
_LAST_WORD = re.compile(r"[^\s(\[{\"'“‘«„/—–]+\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]|(?!I)[^\W\d_]")
_REACH = 16
"""How far before a full stop an abbreviation may begin."""

_LEADS_ON_WORDS = """
mr mrs ms dr prof st mt messrs mme mlle rev hon gen col maj capt cmdr lt sgt cpl pvt adm brig gov sen rep
pres supt vs viz cf approx figs eqs vols pp eds bzw vgl bspw evtl inkl sra srta dott sig см им
"""
_BEFORE_NUMBER_WORDS = """
no nos nr núm nº p fig eq eqn ch chap cap sec vol art op ca abs jan feb mar apr jun jul aug sep sept oct nov
dec стр рис табл
"""
_LEADS_ON = frozenset(_LEADS_ON_WORDS.split())
_BEFORE_NUMBERS = frozenset(_BEFORE_NUMBER_WORDS.split())
_GERMAN_MONTH = re.compile(r"(?:Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")


def sentence_starts(text: str) -> list[int]:
    """Where each sentence starts, as increasing code point offsets; the first is the first that is not
    white space.

    A text of white space alone has none.
    """
    first = len(text) - len(text.lstrip())
    if first == len(text):
        return []
    starts = [first]
    for match in _BORDER.finditer(text, first):
        end = match.end()
        if end == len(text):
            break
        if match["space"] is None or _ends(text, match, starts[-1]):
            starts.append(end)
    return starts


def _ends(text: str, match: re.Match[str], start: int) -> bool:
    """Whether stops followed by white space end the sentence that began at `start`."""
    space = match["space"]
    if space != " " and any(char in _LINE for char in space):
        return True
    end = match.end()
    if text[end].islower():
        return False
    following = text[end : end + _REACH].lstrip(_OPENERS)
    if following[:1].islower():
        return False
    stop = match.start()
    if text[stop] != "." or match["more"]:
        return True
    word_match = _LAST_WORD.search(text, max(start, stop - _REACH), stop)
    if word_match is None:
        return True
    word = word_match[0]
    if word.isdecimal():
        begins_line = word_match.start() == start and len(word) <= 3
        return not (begins_line or _GERMAN_MONTH.match(following))
    if following[:1].isdecimal() and word.lower() in _BEFORE_NUMBERS:
        return False
    initials = _INITIALS.fullmatch(word) and (len(word) > 1 or word.isupper())
    return not (initials or word.lower() in _LEADS_ON)
