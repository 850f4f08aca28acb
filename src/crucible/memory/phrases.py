"""The phrases by which people say something lasting about themselves, as data. `rules` does the matching.

Each is matched against one clause that states something: questions, suppositions and what is denied never come here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from crucible.memory.facts import Kind

_I = r"i(?:'m| am)(?: (?:now|currently|actually|also|really|quite|very|severely|mildly))*"
_ADVERB = (
    r"(?:(?:now|currently|actually|also|really|usually|generally|always|just|recently|definitely|strongly|"
    r"absolutely|still|mostly|mainly) )*"
)
_HAVE = r"(?:i've|i have) (?:just |recently |now )?"
# Of these one has at most one; of those below any number, so their names are part of what they are about.
_ONE = (
    r"wife|husband|partner|spouse|girlfriend|boyfriend|fianc[ée]e?|mother|mom|mum|father|dad|boss|manager|"
    r"team lead|best friend|doctor|dentist|therapist"
)
_SOME = (
    r"son|daughter|baby|brother|sister|dog|cat|horse|hamster|parrot|puppy|kitten|rabbit|turtle|roommate|"
    r"flatmate|colleague|co-?founder"
)
_NAMED = r"(?:(?: is|'s) (?:called|named)|'s name(?: is|'s)| goes by)"
_OCCUPATION = (
    r"[\w-]*(?:developer|engineer|programmer|scientist|analyst|designer|architect|administrator|admin|manager|"
    r"teacher|professor|lecturer|student|"
    r"nurse|doctor|physician|surgeon|dentist|pharmacist|lawyer|attorney|accountant|journalist|writer|author|"
    r"editor|translator|researcher|consultant|"
    r"founder|freelancer|musician|photographer|artist|chef|cook|baker|electrician|plumber|carpenter|mechanic|"
    r"pilot|firefighter|biologist|chemist|"
    r"physicist|mathematician|economist|statistician|psychologist|therapist|librarian|historian|geologist|"
    r"astronomer|tester|sysadmin|devops|sre|"
    r"product owner|scrum master|farmer|gardener|veterinarian|vet|paramedic|retiree|intern|apprentice|postdoc|"
    r"undergraduate|beginner|novice)"
)
_OWN = (
    r"time ?zone|birthday|native language|mother tongue|first language|pronouns|(?:main |work |personal "
    r")?e-?mail(?: address)?|phone number|github (?:handle|username|account)|"
    r"operating system|os|editor|ide|shell|terminal|browser|laptop|computer|phone|car|bike|team|company|employer|"
    r"job title|occupation|profession|job|"
    r"home ?town|city|country|address|age|height|weight|shoe size|blood type|star sign|nationality|religion|"
    r"hobby|budget|deadline|"
    r"company's name|username|handle|name"
)
_DIET = (
    r"(?:vegetarian|vegan|pescatarian|halal|kosher|gluten[- ]free|lactose[- ]intolerant|diabetic|coeliac|celiac|"
    r"teetotal)"
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """`attribute` and `text` are filled with the groups of the pattern. `{value:key}` becomes a key.

    `is_name` is for words that are said of much else ("moved to", "joined"): only a name makes a fact of them.
    """

    pattern: re.Pattern[str]
    kind: Kind
    attribute: str
    text: str
    confidence: float = 0.85
    is_place: bool = False
    is_name: bool = False
    ends: bool = False


def _phrase(
    pattern: str,
    kind: Kind,
    attribute: str,
    text: str,
    confidence: float = 0.85,
    *,
    is_place: bool = False,
    is_name: bool = False,
    ends: bool = False,
) -> Phrase:
    compiled = re.compile(rf"(?:{pattern})\s*$", re.IGNORECASE)
    return Phrase(compiled, kind, attribute, text, confidence, is_place, is_name, ends)


_V = r"(?P<value>\S.{0,159}?)"

# The first that fits is taken: the special before the general.
PHRASES: tuple[Phrase, ...] = (
    # What is taken back
    _phrase(
        rf"i no longer live in {_V}|i don't live in {_V.replace('value', 'other')} any ?more",
        "fact",
        "home",
        "Lives in",
        ends=True,
    ),
    _phrase(
        rf"i (?:no longer work|don't work) (?:at|for|with) {_V}(?: any ?more)?|i (?:quit|left) my job.{{0,40}}",
        "fact",
        "employer",
        "Works at",
        ends=True,
    ),
    _phrase(
        rf"i(?:'m| am) no longer (?:a )?(?P<value>{_DIET})",
        "constraint",
        "diet:{value:key}",
        "Is {value}",
        ends=True,
    ),
    _phrase(
        rf"i(?:'m| am) (?:no longer|not) allergic to {_V}(?: any ?more)?",
        "constraint",
        "allergy:{value:key}",
        "Is allergic to {value}",
        ends=True,
    ),
    _phrase(
        rf"i (?:no longer (?:like|love|enjoy)) {_V}",
        "preference",
        "taste:{value:key}",
        "Likes {value}",
        ends=True,
    ),
    # Names
    _phrase(
        rf"(?:please |you can |just |everyone |everybody )*calls? me "
        rf"(?!(?:back|later|when|at|on|if|tomorrow|now|again|an?)\b){_V}",
        "preference",
        "called",
        "Wants to be called {value}",
        0.95,
    ),
    _phrase(
        rf"(?:i(?:'d| would) like to be|i go by|i(?:'m| am)) called {_V}|i go by {_V.replace('value', 'other')}",
        "preference",
        "called",
        "Wants to be called {value}",
        0.95,
    ),
    _phrase(
        rf"my (?:full |first |last |real )?name(?: is|'s) {_V}",
        "fact",
        "name",
        "Is named {value}",
        0.95,
    ),
    # Places
    _phrase(
        rf"(?:i {_ADVERB}live|i(?:'m| am) (?:now |currently |still )?living|i {_ADVERB}reside|{_I} based) in {_V}",
        "fact",
        "home",
        "Lives in {value}",
        0.9,
        is_place=True,
    ),
    _phrase(
        rf"(?:i {_ADVERB}(?:moved|relocated)|{_HAVE}(?:moved|relocated)) (?:from .{{1,40}} )?(?:back )?to {_V}",
        "fact",
        "home",
        "Lives in {value}",
        0.9,
        is_place=True,
        is_name=True,
    ),
    _phrase(
        rf"my home is in {_V}|i moved from .{{1,40}} to {_V.replace('value', 'other')}",
        "fact",
        "home",
        "Lives in {value}",
        0.9,
        is_place=True,
    ),
    _phrase(
        rf"(?:{_I} (?:originally )?from|i (?:originally )?come from|i grew up in) {_V}",
        "fact",
        "origin",
        "Comes from {value}",
        0.85,
        is_place=True,
    ),
    _phrase(
        r"i was born (?P<how>on|in) (?P<value>.{0,60}\d.{0,60}?)",
        "fact",
        "born",
        "Was born {how} {value}",
        0.9,
    ),
    _phrase(
        rf"i was born in {_V}", "fact", "birthplace", "Was born in {value}", 0.9, is_place=True
    ),
    # Work
    _phrase(rf"i {_ADVERB}work as (?:an? |the )?{_V}", "fact", "role", "Works as {value}", 0.9),
    _phrase(
        rf"(?:i {_ADVERB}work|{_I} (?:working|employed)) (?:at|for) (?:a company called |a firm called )?"
        rf"(?!(?:home|free|fun|nights?|the|least|\d)\b){_V}",
        "fact",
        "employer",
        "Works at {value}",
        0.9,
        is_place=True,
    ),
    _phrase(
        rf"(?:i {_ADVERB}(?:joined|started at|started working at|started working for)|{_HAVE}(?:joined|started "
        rf"at)|my new job is at) {_V}",
        "fact",
        "employer",
        "Works at {value}",
        0.8,
        is_place=True,
        is_name=True,
    ),
    _phrase(
        rf"{_I} (?:an? |the )(?P<value>(?:[\w+#./-]+ ){{0,4}}{_OCCUPATION}(?: (?:at|in|for|of|with) .{{1,60}}?)?)",
        "fact",
        "role",
        "Is a {value}",
        0.85,
    ),
    # Body and food
    _phrase(
        rf"{_I} allergic to {_V}",
        "constraint",
        "allergy:{value:key}",
        "Is allergic to {value}",
        0.95,
    ),
    _phrase(
        rf"i have an? {_V} allergy",
        "constraint",
        "allergy:{value:key}",
        "Is allergic to {value}",
        0.95,
    ),
    _phrase(
        rf"i have an? allergy to {_V}",
        "constraint",
        "allergy:{value:key}",
        "Is allergic to {value}",
        0.95,
    ),
    _phrase(
        rf"{_I} (?:an? )?(?P<value>{_DIET})", "constraint", "diet:{value:key}", "Is {value}", 0.95
    ),
    _phrase(
        rf"i (?:don't|do not|never|can't|cannot) (?P<verb>eat|drink|smoke|take) {_V}",
        "constraint",
        "avoids:{value:key}",
        "Does not {verb} {value}",
        0.85,
    ),
    _phrase(rf"{_I} (?P<value>\d{{1,3}}) years old", "fact", "age", "Is {value} years old", 0.9),
    # People and animals
    _phrase(
        rf"my (?P<who>{_ONE}){_NAMED} {_V}",
        "fact",
        "person:{who:key}",
        "Their {who} is called {value}",
        0.9,
    ),
    _phrase(
        rf"my (?P<who>{_SOME}){_NAMED} {_V}",
        "fact",
        "person:{who:key}-{value:key}",
        "Their {who} is called {value}",
        0.9,
    ),
    _phrase(
        rf"i have an? (?P<age>(?:\w+ ){{0,3}})(?P<who>{_SOME}) (?:called|named) {_V}",
        "fact",
        "person:{who:key}-{value:key}",
        "Has a {age}{who} called {value}",
        0.9,
    ),
    _phrase(
        rf"my (?P<who>{_ONE}|{_SOME}) is (?P<value>(?:an? |the )?(?:[\w-]+ ){{0,3}}{_OCCUPATION})",
        "fact",
        "person-role:{who:key}",
        "Their {who} is {value}",
        0.85,
    ),
    _phrase(
        r"i have (?P<value>(?:an?|one|two|three|four|five|six|\d+) (?:\w+ )?(?:kids?|children|sons?|daughters?|"
        r"dogs?|cats?|siblings?|brothers?|sisters?))",
        "fact",
        "has:{value:key}",
        "Has {value}",
        0.85,
    ),
    # What is one's own
    _phrase(
        rf"my favou?rite (?P<what>[\w -]{{1,40}}?)(?: is| are|'s) {_V}",
        "preference",
        "favourite:{what:key}",
        "Their favourite {what} is {value}",
        0.9,
    ),
    _phrase(
        rf"my (?P<what>{_OWN})(?: is| are|'s) {_V}",
        "fact",
        "own:{what:key}",
        "Their {what} is {value}",
        0.9,
    ),
    _phrase(
        rf"i {_ADVERB}speak (?P<value>[A-Z][a-z]+.{{0,80}}?)",
        "fact",
        "languages",
        "Speaks {value}",
        0.85,
    ),
    # Goals
    _phrase(
        r"my (?:main |long[- ]term |current |ultimate |personal |career )*(?:goal|aim|objective|dream|"
        rf"ambition)(?: for .{{1,30}})?(?: is|'s) (?:to )?{_V}",
        "goal",
        "goal:{value:key}",
        "Wants to {value}",
        0.9,
    ),
    _phrase(
        r"i (?:really )?(?:want|hope|plan|intend|aim|'m planning|am planning|'d like|would like) to "
        r"(?P<value>(?:learn|become|finish|lose|run|save|buy|move|write|publish|launch|build|get|pass|retire|"
        r"start|quit|improve|master|travel|visit|switch)\b.{2,150}? (?:by|within|before|until|this year|next "
        r"year|someday|one day|in the next|in \d{4}|in the long run)\b.{0,40}?)",
        "goal",
        "goal:{value:key}",
        "Wants to {value}",
        0.8,
    ),
    _phrase(
        rf"{_I} (?P<verb>training|saving(?: up)?|studying|preparing) for {_V}",
        "goal",
        "goal:{value:key}",
        "Is {verb} for {value}",
        0.8,
    ),
    _phrase(
        rf"(?:{_I} (?P<verb>learning|studying|teaching myself)|i want to learn) (?P<value>(?:[A-Z]|how to |to "
        rf")\S.{{0,80}}?)",
        "goal",
        "goal:learn-{value:key}",
        "Wants to learn {value}",
        0.75,
    ),
    # Tastes
    _phrase(
        rf"i {_ADVERB}prefer {_V} (?:over|to|rather than|instead of) (?P<other>.{{1,80}}?)",
        "preference",
        "prefers:{value:key}",
        "Prefers {value} over {other}",
        0.9,
    ),
    _phrase(
        rf"i(?:'d| would) (?:much )?prefer (?:it )?if (?:you |we ){_V}",
        "preference",
        "",
        "Prefers that the assistant would {value}",
        0.8,
    ),
    _phrase(
        rf"i(?:'d| would)? {_ADVERB}prefer {_V}",
        "preference",
        "prefers:{value:key}",
        "Prefers {value}",
        0.9,
    ),
    _phrase(
        rf"i (?:really )?(?:don't|do not) like {_V}|i {_ADVERB}(?:hate|dislike|detest|can't stand|cannot stand) "
        rf"{_V.replace('value', 'other')}",
        "preference",
        "taste:{value:key}",
        "Dislikes {value}",
        0.85,
    ),
    _phrase(
        rf"i {_ADVERB}(?:like|love|enjoy|adore) {_V}",
        "preference",
        "taste:{value:key}",
        "Likes {value}",
        0.75,
    ),
    _phrase(
        rf"i (?:always|usually|mostly|mainly|exclusively|generally) use {_V}",
        "preference",
        "uses:{value:key}",
        "Mostly uses {value}",
        0.8,
    ),
    _phrase(
        r"i use (?P<value>[\w.+#-]+(?: [\w.+#-]+){0,3}) (?:as|for) my (?P<what>[\w -]{1,40}?)",
        "fact",
        "uses:{what:key}",
        "Uses {value} for their {what}",
        0.85,
    ),
    # What shall be done from now on
    _phrase(
        rf"(?:from now on|in (?:the )?future|going forward|henceforth|for all future .{{1,30}})[, ]+(?:please "
        rf")?(?:i want you to |you should |you must )?{_V}",
        "constraint",
        "",
        "From now on: {value}",
        0.9,
    ),
    _phrase(
        rf"{_V}[,]? (?:from now on|going forward|in (?:the )?future)",
        "constraint",
        "",
        "From now on: {value}",
        0.85,
    ),
    _phrase(
        r"(?:please )?(?:remember|keep in mind|note|bear in mind|don't forget)(?: that)? (?P<value>(?:i|my|we|"
        r"our)\b.{2,158}?)",
        "fact",
        "",
        "{value:about}",
        0.9,
    ),
    _phrase(
        r"(?:please |make sure (?:you|to) |you (?:should|must) )?(?P<verb>always|never) (?P<value>(?!mind\b|"
        r"been\b|had\b|seen\b|heard\b|tried\b|thought\b)[a-z-]+ .{1,158}?)",
        "constraint",
        "",
        "{verb:title} {value}",
        0.85,
    ),
    _phrase(rf"(?:please )?(?:do not|don't) ever {_V}", "constraint", "", "Never {value}", 0.85),
)
