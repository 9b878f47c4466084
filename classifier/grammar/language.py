"""One language that errors are written in, and which languages a text is written in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

# --- letters ---


_SHARP: Final = {
    "ß": "ss",
    "æ": "ae",
    "Æ": "Ae",
    "œ": "oe",
    "Œ": "Oe",
    "ø": "o",
    "ё": "е",
    "Ё": "Е",
}


def _plain_letters() -> Iterator[tuple[int, str]]:
    """Yield each accented Latin letter with the letter that it stands on."""
    for code in range(0xC0, 0x180):
        base = unicodedata.normalize("NFD", chr(code))[0]
        if base.isascii():
            yield code, base


_LETTERS: Final = {
    **dict(_plain_letters()),
    **{ord(letter): plain for letter, plain in _SHARP.items()},
    ord("№"): " ",
    ord("\u00ad"): None,  # a soft hyphen
}
_TRADITIONAL: Final = str.maketrans(
    "餘額帳戶號請過頻無權證驗憑鑰錯誤網絡單計費訂閱會員組織國區應圖檔欄參數據體長輸內違規檢測"
    "務統擁載負壓繫線斷時間達嘗試後開啟關閉鎖標記詞類調設須項齊還沒與個遠當們併發執銷簽對儲進"
    "這連異滿佔顯憶資確敗絕濾訪問處來聯導響傳遞動終結運營優話實際經濟業專屬歸環節點鏈係條則約"
    "錄稱陸產買賣質貨觸視覺聲語譯雲維護級別價錢幣從見現認識該詳細總賬碼紀讀寫東車門飛樂習歷態"
    "層壞舊續給純縮繼紅綠綜臨術複製貴賴貼貸賞輕輛輯辦農邊遲選遷適遺鄰釋鈕鑑鐘鏡閒陣陽隊階隨險"
    "難靜頁頂順預領題願顧風飯館馬驟黨齡",
    "余额帐户号请过频无权证验凭钥错误网络单计费订阅会员组织国区应图档栏参数据体长输内违规检测"
    "务统拥载负压系线断时间达尝试后开启关闭锁标记词类调设须项齐还没与个远当们并发执销签对储进"
    "这连异满占显忆资确败绝滤访问处来联导响传递动终结运营优话实际经济业专属归环节点链系条则约"
    "录称陆产买卖质货触视觉声语译云维护级别价钱币从见现认识该详细总账码纪读写东车门飞乐习历态"
    "层坏旧续给纯缩继红绿综临术复制贵赖贴贷赏轻辆辑办农边迟选迁适遗邻释钮鉴钟镜闲阵阳队阶随险"
    "难静页顶顺预领题愿顾风饭馆马骤党龄",
)


def fold(text: str) -> str:
    """Return a text with one way of writing each letter.

    Accents are dropped, and full-width letters become plain ones.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.translate(_LETTERS)).translate(_LETTERS)


def simplify(text: str) -> str:
    """Return a text with simplified Chinese characters, unless it is Japanese."""
    if _KANA.search(text):
        return text
    return text.translate(_TRADITIONAL).replace("支援", "支持")


# --- languages ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words by which the grammar reads one language beside English.

    ``subjects`` and ``predicates`` are words by the ids of the terms in ``vocabulary``, written
    as there: alternatives separated by ``|``, a trailing ``*`` for any ending. All other fields
    are words separated by blanks.
    """

    code: str  # ISO 639-1
    source: str
    subjects: Mapping[str, str]
    predicates: Mapping[str, str]
    negations: str = ""  # they stand before what they deny
    denials: str = ""  # they stand behind it
    inabilities: str = ""  # denials of "can": "cannot exceed" reports that it did
    none_of: str = ""  # "no" before a noun
    none_behind: str = ""  # "there is none" behind a noun
    ends_negation: str = ""
    advice: str = ""  # the first word of a clause that advises
    advice_endings: str = ""  # how the last word of such a clause ends
    conditions: str = ""  # what follows has not happened
    conditions_behind: str = ""  # what stands before has not happened
    turns: str = ""  # they begin a new clause
    pauses: str = ""  # how a word ends behind which a comma ends the clause; else it does not
    relatives: str = ""  # behind a comma they begin a clause about the noun before it
    continues: str = ""  # behind a comma they go on with the clause
    prepositions: str = ""
    postpositions: str = ""
    echoes: str = ""  # what follows one of these and a colon is a copy of the request
    heads: str = ""  # second parts of compounds that are written as one word
    common: str = ""  # other frequent words, by which the language is told
    respelled: Mapping[int, str] = field(default_factory=dict)  # another spelling of letters

    def written(self, words: str) -> Iterator[tuple[str, ...]]:
        """Yield each alternative of ``words`` as a tuple of words, in every spelling."""
        for alternative in words.split("|"):
            for spelling in {alternative, alternative.translate(self.respelled)}:
                if phrase := tuple(fold(spelling).split()):
                    yield phrase

    def phrases(self) -> Iterator[tuple[str, ...]]:
        """Yield every phrase of subjects and predicates."""
        for words in (*self.subjects.values(), *self.predicates.values()):
            yield from self.written(words)

    def listed(self, words: str) -> frozenset[str]:
        """Return words separated by blanks, in every spelling."""
        return frozenset(word for part in words.split() for (word,) in self.written(part))


# --- which language ---


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KANA: Final = re.compile(r"[ぁ-ヺ]")
_SCRIPTS: Final = {
    "ja": _KANA,
    "ko": re.compile(r"[가-힣]"),
    "ru": re.compile(r"[а-яА-Я]"),
}
_LATIN: Final = re.compile(r"[a-z]+")
_FIVE: Final = re.compile(r"(?<![a-z])[a-z]{5}")  # beginnings of words
_SIX: Final = re.compile(r"(?<![a-z])[a-z]{6}")
_ENGLISH: Final = _words(
    "the are were your you please with this that have been our by if from does cannot to of and"
    " not is a or for be it must should"
)
# Words of other languages that English has, too: they tell nothing.
_SHARED: Final = _words(
    "text an last null tag es da ab pro lang ob im still quote plans local final compatible"
    " sensible maintenance conditions communication interpreter invite zone plus car point court"
    " charge impossible limitation arrive forme identification fin do so as os com tempo deploy"
    " digital motor red del offline rolle falls obsolete decoder directives envoy plant argent"
    " contingent privilege appel incompatible mal super contra position visit retire pays"
    " active"
)


class Tongues:
    """Tell in which languages a text is written, by its script or by the words of each."""

    def __init__(self, languages: Iterable[Language], english: frozenset[str]) -> None:
        every = tuple(languages)
        self._scripted = tuple(
            (_SCRIPTS[lang.code], lang) for lang in every if lang.code in _SCRIPTS
        )
        shared = english | {part for word in english for part in _beginnings(word)}
        shared |= _ENGLISH | _SHARED
        self._latin = tuple(
            (_telling(lang) - shared, lang) for lang in every if lang.code not in _SCRIPTS
        )

    def of(self, text: str) -> tuple[Language, ...]:
        """Return the languages beside English and Chinese, none where English prevails."""
        if not text.isascii():
            if scripted := tuple(lang for script, lang in self._scripted if script.search(text)):
                return scripted
            text = fold(text)
        lowered = text.lower()
        words = frozenset(_LATIN.findall(lowered)).union(
            _FIVE.findall(lowered), _SIX.findall(lowered)
        )
        scores = [(len(words & telling), lang) for telling, lang in self._latin]
        most = max((hits for hits, _ in scores), default=0)
        if most <= len(words & _ENGLISH):
            return ()
        return tuple(lang for hits, lang in scores if hits == most)


def _telling(language: Language) -> frozenset[str]:
    """Return the words, and the beginnings of stems, that a language is told by."""
    words = {word for phrase in language.phrases() for word in phrase}
    for listed in (
        language.negations, language.none_of, language.advice, language.conditions,
        language.turns, language.common,
    ):  # fmt: skip
        words |= language.listed(listed)
    whole = {word for word in words if not word.endswith("*") and len(word) > 1}
    stems = (word[:-1] for word in words if word.endswith("*"))
    for stem in stems:
        whole.update(_beginnings(stem)[-1:])
        whole.update(stem + ending for ending in _ENDINGS)
    return frozenset(whole)


_ENDINGS: Final = ("", "e", "s", "es", "en", "er", "o", "a", "os", "as")


def _beginnings(word: str) -> list[str]:
    """Return the first five and the first six letters of a word that has as many."""
    return [word[:size] for size in (5, 6) if len(word) >= size]
