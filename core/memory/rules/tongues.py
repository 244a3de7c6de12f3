"""Statements in German, Chinese and Japanese: one pattern each. Linear time: bounded repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.memory.rules.statement import Statement, category_of
from core.memory.stages.normal import USER

if TYPE_CHECKING:
    from core.memory.rules.clauses import Clause


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """Groups: `s` the subject (absent: the user), `v` the value, `o` what was there before."""

    pattern: re.Pattern[str]
    property: str
    sentence: str  # with {s}, {v} and {o}
    kind: str = "person"
    exclusive: bool = True


def _rule(
    pattern: str, name: str, sentence: str, *, kind: str = "person", exclusive: bool = True
) -> _Rule:
    return _Rule(
        pattern=re.compile(pattern),
        property=name,
        sentence=sentence,
        kind=kind,
        exclusive=exclusive,
    )


_N = r"(?P<s>[A-ZÄÖÜ][\w-]{1,30}(?: [A-ZÄÖÜ][\w-]{1,30})?)"
_V = r"(?P<v>[^,;.]{1,80}?)"
_OLD = r"(?P<o>[^,;.]{1,60}?)"
_GERMAN = (
    _rule(rf"(?i:nennt? mich) {_V}$", "name", "Der Nutzer wird {v} genannt"),
    _rule(rf"(?i:ich (?:heiße|heisse)|mein name ist) {_V}$", "name", "Der Nutzer heißt {v}"),
    _rule(
        rf"(?i:ich) (?:wohne|lebe)(?: jetzt| nun| seit [^,;.]{{1,20}})? in {_V}$",
        "home city",
        "Der Nutzer wohnt in {v}",
    ),
    _rule(
        rf"(?i:ich) bin(?: [^,;.]{{1,30}}?)? nach {_V} (?:um)?gezogen$",
        "home city",
        "Der Nutzer ist nach {v} gezogen",
    ),
    _rule(
        rf"(?i:ich) arbeite(?: jetzt| nun)? (?:bei|für) {_V}$",
        "employer",
        "Der Nutzer arbeitet bei {v}",
    ),
    _rule(rf"(?i:ich) arbeite(?: jetzt| nun)? als {_V}$", "role", "Der Nutzer arbeitet als {v}"),
    _rule(
        rf"(?i:ich) bin (?:allergisch gegen) {_V}$",
        "allergy",
        "Der Nutzer ist allergisch gegen {v}",
        exclusive=False,
    ),
    _rule(
        r"(?i:ich) esse (?P<v>kein\w{0,2} [^,;.]{1,40}?)$",
        "diet",
        "Der Nutzer isst {v}",
    ),
    _rule(rf"(?i:ich) (?:mag|liebe) {_V}$", "likes", "Der Nutzer mag {v}", exclusive=False),
    _rule(rf"(?i:ich) bevorzuge {_V}$", "preference", "Der Nutzer bevorzugt {v}", exclusive=False),
    _rule(
        rf"(?i:wir) sind (?:von|vom) {_OLD} (?:auf|zu|nach) {_V} "
        r"(?:umgestiegen|gewechselt|migriert|umgezogen)$",
        "uses",
        "Das Team ist von {o} auf {v} umgestiegen",
    ),
    _rule(
        rf"(?i:wir) (?:nutzen|verwenden|benutzen)(?: jetzt| nun)? {_V}$",
        "uses",
        "Das Team nutzt {v}",
        exclusive=False,
    ),
    _rule(
        rf"(?i:mein|meine|unser|unsere) (?P<p>[\wäöüß-]{{3,30}}) {_N} (?:wohnt|lebt)"
        rf"(?: jetzt)? in {_V}$",
        "home city",
        "{s} wohnt in {v}",
    ),
    _rule(rf"{_N} (?:wohnt|lebt)(?: jetzt| nun)? in {_V}$", "home city", "{s} wohnt in {v}"),
    _rule(rf"{_N} arbeitet(?: jetzt| nun)? (?:bei|für) {_V}$", "employer", "{s} arbeitet bei {v}"),
    _rule(rf"{_N} arbeitet(?: jetzt| nun)? als {_V}$", "role", "{s} arbeitet als {v}"),
    _rule(rf"{_N} leitet(?: jetzt| nun)? {_V}$", "role", "{s} leitet {v}"),
    _rule(
        rf"{_N} (?:heißt jetzt|wurde umbenannt in) {_V}$",
        "name",
        "{s} heißt jetzt {v}",
        kind="thing",
    ),
    _rule(
        rf"(?i:die|unsere) (?P<s>Deadline|Frist|Abgabe) ist (?:am |bis )?{_V}$",
        "deadline",
        "Die {s} ist am {v}",
        kind="thing",
    ),
    _rule(
        r"(?i:ich bin) (?P<v>(?:Vegetarier|Veganer)(?:in)?|vegetarisch|vegan)$",
        "diet",
        "Der Nutzer ist {v}",
    ),
    _rule(
        r"(?i:ich bin) (?:von Beruf |eine? )?(?P<v>[A-ZÄÖÜ][^,;.]{2,60}?)(?: von Beruf)?$",
        "role",
        "Der Nutzer ist {v}",
    ),
    _rule(
        rf"{_N} ist (?:jetzt |nun )?"
        r"(?P<v>(?:unsere?|meine?|die|der)(?: neue[rn]?)? [A-ZÄÖÜ][^,;.]{2,60}?)$",
        "role",
        "{s} ist {v}",
    ),
    _rule(
        rf"(?i:wir) (?P<p>deployen|releasen|treffen uns|veröffentlichen)(?: immer| jetzt)? {_V}$",
        "schedule",
        "Vom Team: {p} {v}",
    ),
    _rule(
        rf"(?i:wir haben) (?P<p>[^,;.]{{3,40}}?) (?:in|auf) {_V} (?:umbenannt|verschoben)$",
        "{p}",
        "Das Team hat {p} geändert: {v}",
    ),
    _rule(
        rf"(?i:wir haben uns für) {_V} entschieden$",
        "decision",
        "Das Team hat sich für {v} entschieden",
        exclusive=False,
    ),
    _rule(
        rf"(?i:mein|meine|unser|unsere) (?P<p>[\wäöüß-]{{3,30}}) (?:ist|heißt) {_V}$",
        "{p}",
        "Vom Nutzer: {p} ist {v}",
    ),
    _rule(
        r"(?i:der|die|das) (?P<s>[A-ZÄÖÜ][\wäöüß-]{2,30}) (?:ist|läuft|liegt|findet)"
        r"(?: jetzt| nun| immer)? (?P<v>(?:am|auf|in|freitags|montags|dienstags|mittwochs"
        r"|donnerstags|um)[^,;.]{0,60}?)(?: statt)?$",
        "schedule",
        "{s} ist {v}",
        kind="thing",
    ),
)
_C = r"[^，。！？、；\s]"
_CHINESE = (
    _rule(rf"(?:请)?(?:叫我|我叫|我的名字(?:是|叫))(?P<v>{_C}{{1,12}})$", "name", "用户叫{v}"),
    _rule(rf"我(?:现在)?住在(?P<v>{_C}{{1,20}}?)$", "home city", "用户住在{v}"),
    _rule(rf"我{_C}{{0,8}}?搬(?:到|去)了?(?P<v>{_C}{{1,20}}?)了?$", "home city", "用户搬到了{v}"),
    _rule(rf"我(?:现在)?在(?P<v>{_C}{{1,20}}?)(?:工作|上班)$", "employer", "用户在{v}工作"),
    _rule(rf"我对(?P<v>{_C}{{1,12}}?)过敏$", "allergy", "用户对{v}过敏", exclusive=False),
    _rule(rf"我不(?:吃|喝)(?P<v>{_C}{{1,12}})$", "diet", "用户不吃{v}", exclusive=False),
    _rule(rf"我(?:最)?(?:喜欢|爱)(?P<v>{_C}{{1,20}})$", "likes", "用户喜欢{v}", exclusive=False),
    _rule(
        rf"我们{_C}{{0,10}}?从(?P<o>{_C}{{1,20}}?)(?:换|切换|迁移|改|转)(?:到|成|为)了?"
        rf"(?P<v>{_C}{{1,20}}?)了?$",
        "uses",
        "用户的团队从{o}换成{v}",
    ),
    _rule(
        rf"我们{_C}{{0,6}}?(?:使用|采用|用)(?:的是)?(?P<v>{_C}{{1,20}})$",
        "uses",
        "用户的团队使用{v}",
        exclusive=False,
    ),
    _rule(
        rf"我们(?P<v>(?:每|在)?{_C}{{1,10}}?(?:开会|发布|部署|上线))$",
        "schedule",
        "用户的团队{v}",
    ),
    _rule(
        rf"我们(?:决定|选择)了?(?P<v>{_C}{{1,24}})$",
        "decision",
        "用户的团队决定{v}",
        exclusive=False,
    ),
    _rule(
        rf"我(?:的)?(?P<p>妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|妻子|丈夫|同事|朋友)(?:叫)?"
        rf"(?P<s>{_C}{{1,8}}?)(?:现在)?住在(?P<v>{_C}{{1,20}})$",
        "home city",
        "{s}住在{v}",
    ),
    _rule(
        rf"我(?:的)?(?P<p>妹妹|姐姐|哥哥|弟弟|妈妈|爸爸|妻子|丈夫|同事|朋友|猫|狗)(?:叫|是)"
        rf"(?P<v>{_C}{{1,12}})$",
        "{p}",
        "用户的{p}叫{v}",
    ),
    _rule(
        rf"(?P<s>[^我，。！？、；\s]{{1,12}}?)(?:现在)?住在(?P<v>{_C}{{1,20}})$",
        "home city",
        "{s}住在{v}",
    ),
    _rule(
        rf"(?P<s>[^我，。！？、；\s]{{1,12}}?)(?:现在)?负责(?P<v>{_C}{{1,20}})$",
        "role",
        "{s}负责{v}",
    ),
    _rule(
        rf"(?P<s>[^我，。！？、；\s]{{1,16}}?)(?:已经)?(?:改名|更名)(?:为|成|叫)了?(?P<v>{_C}{{1,20}})$",
        "name",
        "{s}改名为{v}",
        kind="thing",
    ),
    _rule(
        rf"(?P<s>[^我，。！？、；\s]{{1,16}}?)的?(?P<p>截止日期|期限|预算|数据库|负责人|端口|版本)"
        rf"(?:改为|改到|定在|是|为)(?P<v>{_C}{{1,20}})$",
        "{p}",
        "{s}的{p}是{v}",
        kind="project",
    ),
    _rule(
        rf"(?P<s>截止日期|期限|预算|数据库|负责人|部署|发布|会议)(?:改为|改到|定在|是|在|为)"
        rf"(?P<v>{_C}{{1,20}})$",
        "value",
        "{s}是{v}",
        kind="thing",
    ),
    _rule(
        rf"(?P<s>[^我，。！？、；\s]{{1,12}}?)是(?P<v>{_C}{{1,20}})$",
        "role",
        "{s}是{v}",
        kind="thing",
    ),
)
_J = r"[^、。！？\s]"
_JS = r"(?P<s>[^私僕俺、。！？\s]{1,14}?)"
_ME = r"(?:(?:私|僕|俺|わたし)(?:は|が|の))?"
_DONE = r"(?:します|しました|した|する)"
_JAPANESE = (
    _rule(
        rf"{_ME}(?:名前は)?(?P<v>{_J}{{1,12}}?)(?:と|って)呼んで(?:ください|ね)?$",
        "name",
        "ユーザーは{v}と呼ばれている",
    ),
    _rule(rf"(?:私|僕|俺)の名前は(?P<v>{_J}{{1,12}}?)(?:です|だ)?$", "name", "ユーザーの名前は{v}"),
    _rule(
        rf"(?:私|僕)?の?(?P<p>妹|姉|兄|弟|母|父|妻|夫|友人|友達|同僚|上司)の{_JS}は(?:今、?)?"
        rf"(?P<v>{_J}{{1,16}}?)に住んで(?:います|いる)$",
        "home city",
        "{s}は{v}に住んでいる",
    ),
    _rule(
        rf"(?:私|僕|俺)は(?:今|現在)?、?(?P<v>{_J}{{1,16}}?)に住んで(?:います|いる)$",
        "home city",
        "ユーザーは{v}に住んでいる",
    ),
    _rule(
        rf"{_JS}は(?:今|現在)?、?(?P<v>{_J}{{1,16}}?)に住んで(?:います|いる)$",
        "home city",
        "{s}は{v}に住んでいる",
    ),
    _rule(
        rf"{_ME}(?P<v>[^は、。！？\s]{{1,16}}?)に住んで(?:います|いる)$",
        "home city",
        "ユーザーは{v}に住んでいる",
    ),
    _rule(
        rf"{_ME}{_J}{{0,8}}?(?P<v>[^、。！？\sはに]{{1,16}}?)(?:に|へ)引っ越(?:しました|した)$",
        "home city",
        "ユーザーは{v}に引っ越した",
    ),
    _rule(
        rf"{_JS}は(?:今|現在)?、?(?P<v>[^は、。！？\s]{{1,16}}?)で(?:働いて(?:います|いる)|勤務{_DONE})$",
        "employer",
        "{s}は{v}で働いている",
    ),
    _rule(
        rf"{_ME}(?P<v>[^は、。！？\s]{{1,16}}?)で(?:働いて(?:います|いる)|勤務{_DONE})$",
        "employer",
        "ユーザーは{v}で働いている",
    ),
    _rule(
        rf"{_ME}(?P<v>{_J}{{1,12}}?)(?:の)?アレルギー(?:です|があります|がある)$",
        "allergy",
        "ユーザーは{v}アレルギーがある",
        exclusive=False,
    ),
    _rule(
        rf"{_ME}(?P<v>{_J}{{1,16}}?)が(?:大)?好き(?:です|だ)?$",
        "likes",
        "ユーザーは{v}が好き",
        exclusive=False,
    ),
    _rule(
        rf"(?:(?P<s>{_J}{{1,14}}?)(?:は|を))?(?P<o>{_J}{{1,16}}?)から(?P<v>{_J}{{1,16}}?)(?:に|へ)"
        rf"(?:移行|変更|切り替え|乗り換え)(?:{_DONE}|ました|た)$",
        "uses",
        "{o}から{v}に移行した",
        kind="thing",
    ),
    _rule(
        rf"(?:私たち|チーム|うち)(?:は|では)(?P<v>{_J}{{1,20}}?)を(?:使って|使用して|利用して)(?:います|いる)$",
        "uses",
        "チームは{v}を使っている",
        exclusive=False,
    ),
    _rule(
        rf"{_JS}は(?P<v>{_J}{{1,20}}?)を(?:担当|使用|利用)(?:して(?:います|いる)|{_DONE})$",
        "role",
        "{s}は{v}を担当している",
        exclusive=False,
    ),
    _rule(
        rf"{_JS}は(?P<v>{_J}{{1,20}}?)に(?:改名|変更|なりました|なった)(?:{_DONE})?$",
        "name",
        "{s}は{v}になった",
        kind="thing",
    ),
    _rule(
        rf"{_ME}(?P<v>{_J}{{1,20}}?を{_J}{{1,12}}?)(?:います|いる)$",
        "habits",
        "ユーザーは{v}いる",
        exclusive=False,
    ),
    _rule(rf"{_JS}は(?P<v>{_J}{{1,20}}?)(?:です|だ|である)$", "is", "{s}は{v}", kind="thing"),
)
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_GERMAN_SIGNS = re.compile(
    r"[äöüÄÖÜß]|\b(?:ich|wir|mein|meine|unser|unsere|ist|wohnt|arbeitet|nutzen|der|die|das|bei|leitet)\b",
    re.IGNORECASE,
)


_AND = re.compile(r" und (?=(?:wohne|lebe|arbeite|bin|esse|mag|heiße|nutze)\b)")


def foreign_statements(clause: Clause) -> tuple[Statement, ...] | None:
    """Return what a clause in German, Chinese or Japanese states; None: it is in none of them."""
    text = clause.text
    if _KANA.search(text):
        return _first(_JAPANESE, text)
    if _CJK.search(text):
        return tuple(
            s for part in re.split(r"[，,；]", text) for s in _first(_CHINESE, part.strip())
        )
    if _GERMAN_SIGNS.search(text):
        first, *others = _AND.split(text)
        parts = [first, *(f"ich {other}" for other in others)]
        return tuple(s for part in parts for s in _first(_GERMAN, part, quote=text)) or None
    return None


def _first(
    rules: tuple[_Rule, ...], text: str, *, quote: str | None = None
) -> tuple[Statement, ...]:
    for rule in rules:
        found = rule.pattern.match(text)
        if found:
            return (_statement(rule, found, quote or text),)
    return ()


def _statement(rule: _Rule, found: re.Match[str], quote: str) -> Statement:
    groups = {name: value.strip() for name, value in found.groupdict().items() if value}
    subject = groups.get("s", "")
    filled = {"s": subject, "v": groups["v"], "o": groups.get("o", ""), "p": groups.get("p", "")}
    name = rule.property.format(**filled)
    if name == "uses":
        name = category_of(groups["v"]) or name
    return Statement(
        subject=subject or USER,
        kind=rule.kind if subject else "person",
        property=name,
        value=groups["v"],
        exclusive=rule.exclusive,
        sentence=rule.sentence.format(**filled),
        quote=quote,
    )
