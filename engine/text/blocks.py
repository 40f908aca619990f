r"""What the beginning of a line says about the line: patterns for `scan.Scan`. Core.

All begin after the line's indentation, are bounded, and none matches the beginning of what it could
match: a line end that decides is part of the match.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]  # it ships no types

#: three or more of one sign and nothing else; `=` under a heading too
RULE = regex.compile(
    r"(?:(?:\*[ ]*+){3,80}|(?:-[ ]*+){3,80}|(?:_[ ]*+){3,80}|=[=]{2,80}[ ]*+)(?:\n|\Z)"
)
FENCE = regex.compile(r"(?P<fence>`{3,64}|~{3,64})(?P<info>[^`\n]{0,200})(?:\n|\Z)")
HEADING = regex.compile(r"#{1,6}(?=[ \n]|\Z)")
HEADING_END = regex.compile(r"#{1,20}+[ ]{0,20}+(?=\n|\Z)")
#: the line under a table's head; it needs a `|` and a `-`
DELIMITERS = regex.compile(r"[-:|][-:| ]{2,200}+(?:\n|\Z)")
ROW = regex.compile(r"\|")
FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]{1,40}\]:")
#: where a link of another place leads to; it is never spoken
LINK_TARGET = regex.compile(
    r"\[[^\[\]\n^][^\[\]\n]{0,99}\]:[ ]{1,4}(?:<|https?://|/|\#|mailto:|www\.)[^\n]{0,1000}(?:\n|\Z)"
)
BULLET = regex.compile(r"[-*•‣◦▪●○](?:[ ]|(?=\n|\Z))|[•‣◦▪●○]|\+[ ](?=\D|\Z)")
BOX = regex.compile(r"\[[ xX]\](?:[ ]|(?=\n|\Z))")
NUMBER = regex.compile(r"(?P<number>[0-9]{1,9})[.)](?=[ ])")
#: a line that is marked and numbered, as in "**2. Heading**"
MARKED_NUMBER = regex.compile(r"[*_]{1,3}+[0-9]{1,3}+[.)][ ]")
QUOTE = regex.compile(r">(?:[ ]|(?=[>\n]|\Z))")
#: in a text that is known to be markdown
ANY_QUOTE = regex.compile(r">")
#: how a line begins to be seen: opening marks, then what decides
FIRST = regex.compile(r"[*_~`\"“”„'‘’(\[«¿¡]{0,8}+(?P<first>[^*_~`\"“”„'‘’(\[«¿¡]|\Z)")
