"""Homographs that a tagger of parts of speech gets wrong: what the words beside them tell. Core.

misaki chooses among the pronunciations of a word by its tag alone. These rules mend the tag where
the neighbours make it certain, or name a word that sounds as this one does here (the metal lead,
which misaki's dictionary does not have). `tests/data/homographs.jsonl` holds them to what they are
worth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: tokens on either side that a rule may look at
REACH = 12
_CUT = "…/… "


class Reading(NamedTuple):
    """How a token is read: its tag (Penn Treebank), and a word that it sounds like, or None."""

    tag: str
    like: str | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    """When a word has this reading: if all patterns that are given match.

    Attributes:
        reading: what it is then.
        own: its tag as it is.
        before: ends at the word, in the tokens before it as "word/tag " in small letters.
        after: begins behind the word, in the tokens after it.
        near: words of which one is on either side.
        not_near: words of which none is.
    """

    reading: Reading
    own: str = "nn|nnp|jj"
    before: str = ""
    after: str = ""
    near: str = ""
    not_near: str = ""

    def fits(self, own: str, before: str, after: str) -> bool:
        """Whether the reading is this one."""
        return bool(
            re.fullmatch(self.own, own)
            and re.search(f"(?:{self.before})$", before)
            and re.match(self.after, after)
            and (not self.near or _has(self.near, before + after))
            and not (self.not_near and _has(self.not_near, before + after))
        )


def _has(words: str, text: str) -> bool:
    return re.search(_any(words), text) is not None


def _any(words: str, tag: str = r"\S+") -> str:
    """One of these words with a tag, as a pattern."""
    return rf"(?<!\S)(?:{'|'.join(words.split())})/(?:{tag}) "


_BE = _any("is are was were be been being am 's 're 'm")
_SEEM = _any(
    "is are was were be been being am 's 're 'm feel feels felt seem seems seemed look looks "
    "looked sound sounds sounded remain remains remained stay stays stayed appear appears appeared"
)
_ADVERBS = r"(?:\S+/rb )*"
_NOUN = r"(?<!\S)[^\s/]+/nns? "

_METAL = Reading("NN", "led")
_FISH = (
    "fish fishing fished fisherman caught catch lake river sea freshwater striped largemouth "
    "smallmouth grilled fried baked cooked fillet fillets ate eat delicious trout perch bait lure"
)
_SHIP = (
    "ship boat vessel stern deck hull ferry canoe yacht captain starboard anchor tanker waves "
    "sailors kayak ships boats"
)

#: in the present it would end in s
_PAST = _Rule(Reading("VBD"), own="vbp", before=r"(?:(?<!\S)(?:he|she|it)/prp |/nnp? )(?:\S+/rb )?")

_RULES: dict[str, tuple[_Rule, ...]] = {
    "lead": (
        _Rule(
            _METAL,
            after=r"(?:-/\S+ )?"
            + _any(
                "pipes? paints? poisoning shot acid bullets? glass crystal weights? solder mines? "
                "ore oxide apron sheets? exposure contamination content dust pellets? roofs? "
                "levels? ingots? coffins? balloon carbonate based lined toxicity batter(?:y|ies)"
            ),
        ),
        # The other noun is counted: "a lead", "the lead". Without an article it is the metal, but
        # for what stands before another noun: "lead singer".
        _Rule(_METAL, own="nnp?", before=r"(?:^|/(?:in|cc|vb[dgzn]|,|rb) )", after=r"(?!\S+/nn|-/)"),
        _Rule(_METAL, before=_any("contains? contained containing molten liquid melted pure solid toxic white red elemental")),
        _Rule(_METAL, near="zinc copper mercury cadmium arsenic tin iron asbestos pencil graphite"),
        _Rule(
            _METAL,
            own="nn",
            after=_any("in") + r"(?:\S+/\S+ )?" + _any("water paint pipes? soil blood pencil ground"),
        ),
    ),
    "live": (
        _Rule(
            Reading("JJ"),
            own=r"vb\w?",
            before=r"/(?:dt|prp\$|pos) ",
            after=r"[^\s/]+/(?:nn|jj)",
        ),
        _Rule(
            Reading("RB"),
            own=r"vb\w?",
            before=_any(
                "go goes going went gone broadcast broadcasts aired airs streamed streaming perform "
                "performs performed performing recorded recording played playing shown televised "
                "filmed"
            )
            + r"(?:\S+/(?:rp|rb|prp|nn) )?",
            after=_any("(?!with|there|together|alone|somewhere)\\S+", r"(?!prp|dt)\S+") + r"|$",
        ),
        _Rule(Reading("JJ"), own=r"vb\w?", before=_BE + _ADVERBS),
        _Rule(
            Reading("JJ"),
            own=r"vb\w?",
            before=r"(?:^|/(?:in|jj|cc|,|:|``|vb[dgnz]) )",
            after=_any(
                "music shows? broadcasts? streams? streaming television tv video audiences? "
                "concerts? albums? performances? events? coverage animals? ammunition wires? bands? "
                "chat recordings? feed updates? games? podcasts? data demo sessions? audio bait from"
            ),
        ),
    ),
    "close": (
        _Rule(
            Reading("VBP"),
            own="jj|rb",
            before="/nns ",
            after=_any("early late soon again down") + "|" + _any("at") + r"\S+/cd ",
        ),
    ),
    "minute": (
        _Rule(
            Reading("JJ"),
            before=r"(?<!/cd )(?<!/hyph )(?<!last/jj )(?<!first/jj )(?<!final/jj )(?<!every/dt )",
            after=_any(
                "details? traces? amounts? quantit(?:y|ies) particles? fractions? doses? organisms? "
                "creatures? cracks? differences? variations? movements? holes? droplets? crystals? "
                "fragments? specks? inspection examination scrutiny portions? grains? bubbles? "
                "proportions"
            ),
        ),
        _Rule(Reading("JJ"), before=_BE + r"(?:\S+/rb[rs]? )*", after=r"(?!\S+/(?:nn|cd))"),
        _Rule(Reading("JJ"), before=_any("so very extremely incredibly almost", "rb")),
    ),
    "content": (
        _Rule(Reading("JJ"), own="nn", before=_SEEM + r"(?:\S+/rb[rs]? )*", after=r"(?!\S+/nn)"),
        _Rule(
            Reading("JJ"),
            own="nn",
            before=_any("an?"),
            after=_any(
                "person people man men woman women child children baby smile sigh life cat dog "
                "expression heart mind family customers? employees? couple boy girl soul old"
            ),
        ),
    ),
    "dove": (
        _Rule(
            Reading("VBD"),
            own=r"nn|jj|vb\w?|in|rb",
            before=r"/(?:prp|wp|wdt|rb) ",
            after=r"(?!\S+/nn)",
        ),
        _Rule(Reading("VBD"), before=_any("dove")),
        _Rule(
            Reading("VBD"),
            own=r"nn|jj|vb\w?|in|rb",
            before=rf"(?!turtle|rock|mourning|ring|peace|wood){_NOUN}",
            after=_any(
                "in into under beneath underwater headfirst down off behind below towards? "
                "overboard deep deeper straight for back from through at right after out over"
            ),
        ),
    ),
    "bass": (_Rule(Reading("JJ"), own="nnp?|jj|vb|rb", not_near=_FISH),),
    "tear": (
        _Rule(Reading("VB"), before=_any("wear") + _any("and")),
        _Rule(
            Reading("VB"),
            before=_any("muscle ligament meniscus acl tendon hamstring cuff calf groin retinal"),
        ),
        _Rule(Reading("VB"), after=_any("in") + r"(?!(?:\S+ ){0,3}eyes?/)"),
    ),
    "bow": (
        _Rule(
            Reading("VB"),
            before=_any("takes? took taking taken") + r"\S+/(?:dt|prp\$) (?:\S+/jj )*",
        ),
        _Rule(Reading("VB"), before=_any("deep low slight polite courtly final graceful")),
        _Rule(Reading("VB"), near="bowed audience applause", not_near="arrows? violin cello strings?"),
        _Rule(Reading("VB"), near=_SHIP, not_near="arrows? violin cello strings? ribbon archer tie"),
    ),
    "read": (
        _PAST,
        _Rule(
            Reading("VBD"),
            own="vbp?",
            before=r"/(?:prp|nns?|nnp|wp) ",
            near="yesterday ago",
        ),
        _Rule(Reading("VBD"), own="vbp?", before=r"/(?:prp|nns?|nnp|wp) ", after=r".*(?<!\S)last/"),
        _Rule(Reading("VBD"), own="vbp?", before=r"^" + _any("last") + r"\S+/nn .*/prp "),
        _Rule(
            Reading("VBD"),
            own="vbp?",
            before=r"/vbd (?:[^\s/]+/(?!to|md|vb)\S+ )*" + _any("and then"),
        ),
        _Rule(
            Reading("VBP"),
            own="vbd",
            before=r"(?<!\S)(?:i|you|we|they)/prp (?:\S+/rb )?",
            near="every always usually often sometimes daily nowadays",
        ),
        _Rule(Reading("VBP"), own="vbd", before=r"(?<!\S)(?:i|you|we|they)/prp " + _any("always usually often sometimes")),
    ),
    "wound": (_PAST,),
    "wind": (
        _Rule(
            Reading("VBP"),
            before=r"/nns ",
            after=_any("through around along down up past between across over into"),
        ),
    ),
}  # fmt: skip

#: what holds for every word: a noun cannot stand here, a verb can
_VERB = (
    _Rule(Reading("VB"), before="/to ", after=r"\S+/(?:dt|prp\$|prp) "),
    _Rule(Reading("VB"), before=r"^(?:please/\S+ )?", after=r"\S+/(?:dt|prp\$) "),
)


def readings(words: Sequence[str], tags: Sequence[str]) -> Mapping[int, Reading]:
    """The tokens that are to be read otherwise than their tags say, by their number.

    Args:
        words: tokens of a sentence.
        tags: theirs, of the Penn Treebank.
    """
    found: dict[int, Reading] = {}
    tagged: list[str] = []
    for at, word in enumerate(words):
        rules = _RULES.get(word.lower(), ())
        if not word.isupper() and (at < 2 or tags[at - 1] == "TO"):
            rules += _VERB
        if not rules:
            continue
        tagged = tagged or [f"{w}/{tag} ".lower() for w, tag in zip(words, tags, strict=True)]
        before = _CUT * (at > REACH) + "".join(tagged[max(0, at - REACH) : at])
        after = "".join(tagged[at + 1 : at + 1 + REACH])
        fitting = (rule for rule in rules if rule.fits(tags[at].lower(), before, after))
        if rule := next(fitting, None):
            found[at] = rule.reading
    return found
