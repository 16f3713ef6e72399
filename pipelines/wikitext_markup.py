"""The markers of wikitext: the one pattern that finds them all, what the HTML tags mean, and entities."""

from __future__ import annotations

import html
import re
from html.entities import html5

# Letters that, right after a link, belong to its surface ("[[gland]]s"); scripts without spaces have none.
_TRAIL = "[a-zß-öø-ÿĀ-žа-џґα-ωά-ώա-ևא-תء-يა-ჰ]*+"
TRAIL = re.compile(_TRAIL)

# Every branch starts with a plain character, not with a group or a set: only then does `re` skip text fast.
# Empty groups at the end of a branch say which one it was.
TOKEN = re.compile(
    rf"""
    \[\[([^\[\]|{{}}<>\n]++)(?:\|([^\[\]|{{}}<>\n]*+))?\]\]({_TRAIL})  # 1 2 3: target, label, trail
    |\{{\{{+()                                                   # 4: template
    |''+()                                                       # 5: italic, bold
    |&(\#[0-9]{{1,7}}|\#[xX][0-9a-fA-F]{{1,6}}|[a-zA-Z][a-zA-Z0-9]{{1,31}});  # 6: entity
    |<(/?)([a-zA-Z][a-zA-Z0-9]*+)((?:\s[^<>]*+)?/?)>             # 7 8 9: tag
    |\n(?:[ \t]*+[*\#:;]++(?![*\#:; \t]*\{{\|)[ \t]*+|-{{4,}})()  # 10: list item, rule
    |\[\[()                                                      # 11: link with more in it
    |<!--()                                                      # 12: comment
    |\n(={{1,6}})                                                # 13: heading
    |\n[ \t:*\#;]*+\{{\|()                                       # 14: table
    |\n[ \t]*+\|[^\n]*+()                                        # 15: line left over from a table or template
    |\[(?:(?:https?|ftp|mailto|irc|news):|//)[^\s\[\]<>]++()     # 16: external link
    |__[^\W\d_]++__()                                            # 17: switch
    |\]\]()|\}}\}}+()|\{{\|()|\|\}}()                            # 18 to 21: markers left over
    """,
    re.VERBOSE,
)
LINK, TEMPLATE, QUOTES, ENTITY, TAG, ITEM, NESTED_LINK, COMMENT, HEADING, TABLE, LEFTOVER_LINE, EXTERNAL = (
    *(3, 4, 5, 6, 9),
    *range(10, 17),
)
"""The number of the last group of a branch; what has a higher number shows nothing."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


SILENT_TAGS = _names(
    """ref math ce chem gallery timeline score source syntaxhighlight imagemap hiero graph mapframe
    maplink inputbox categorytree templatedata templatestyles style script indicator references
    section"""
)
"""Their content is not shown as text."""

LITERAL_TAGS = frozenset(("nowiki", "pre"))
"""Their content is no wikitext and is shown as it stands."""

BREAK_TAGS = _names("""br hr p div li ul ol dl dd dt tr table blockquote center h1 h2 h3 h4 h5 h6 poem""")
INLINE_TAGS = _names(
    """span sup sub small big b i u s em strong font code tt kbd samp var cite abbr del ins strike q
    dfn mark bdi bdo ruby rt rp rb rtc wbr time data nobr td th caption thead tbody tfoot noinclude
    includeonly onlyinclude"""
)

_ANY_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")


def entity(written: str) -> str:
    """The character of one entity; a fixed space is an ordinary one, an unknown name stays as written."""
    if written in ("&nbsp;", "&thinsp;"):
        return " "
    if written[1] != "#" and written[1:] not in html5:
        return written  # html.unescape would decode a known name at the front of an unknown one
    return html.unescape(written)


def unescaped(text: str) -> str:
    """The text with its entities as characters."""
    return _ANY_ENTITY.sub(lambda found: entity(found[0]), text) if "&" in text else text


def surplus_quotes(count: int) -> int:
    """How many of a run of apostrophes are text: two are italic, three bold, five both."""
    return 1 if count == 4 else max(0, count - 5)
