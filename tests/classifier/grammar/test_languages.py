"""Errors in other languages than English, and what in them is no error."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

from classifier.causes import classify
from classifier.grammar import Grammar, stated_wait
from classifier.grammar.language import Language, Tongues, fold, simplify
from classifier.grammar.languages import languages, read_language
from classifier.grammar.vocabulary import vocabulary
from classifier.records import Ending, FailureEvidence, Kind, ProviderError
from classifier.verdicts import Subcategory
from tests import corpus_score
from tests.answers.table import LANGUAGES, LOOKALIKES, WORDED
from tests.classifier.test_cause_table import DATA
from tests.tables import each

EVERY = pytest.mark.parametrize("language", languages(), ids=lambda lang: lang.code)
ENGLISH_WORDS = frozenset(
    word for term in vocabulary().terms for phrase in term.phrases() for word in phrase
)
TONGUES = Tongues(languages(), ENGLISH_WORDS)
REPORTS = [each for each in LANGUAGES if each.set == "reports"]


def answer(status: int, error: ProviderError | None) -> FailureEvidence:
    return FailureEvidence(
        upstream="mygateway",
        api="openai.chat",
        kind=Kind.INFERENCE,
        status=status,
        ending=Ending.COMPLETE,
        error=error,
    )


def told(text: str) -> list[str]:
    return [language.code for language in TONGUES.of(text)]


# -- what is said ------------------------------------------------------------------------------


CODES = ["zh", *(language.code for language in languages())]


@pytest.mark.parametrize(
    "code", [pytest.param(c, marks=() if c in CODES[:4] else pytest.mark.slow) for c in CODES]
)
def test_without_its_words_a_language_is_hardly_read(code: str) -> None:
    """What remains are statuses, English words, and words that neighbours share."""
    own = [report for report in REPORTS if report.language == code]
    whole, without = corpus_score.score_by_language(corpus_score.as_labelled(own))[code]
    assert whole.category >= 98, whole.misses
    assert without.category < 60


def test_a_grammar_without_languages_reads_english_alone() -> None:
    deaf = Grammar(languages=())
    assert deaf.read("Ihr Guthaben ist aufgebraucht", (), status=400) is None


@each(
    "said, gives",
    [
        ("SALDO_INSUFICIENTE", Subcategory.QUOTA),
        ("LimiteDeRequisicoesExcedido", Subcategory.RATE_LIMIT),
        ("GUTHABEN_AUFGEBRAUCHT", Subcategory.QUOTA),
        ("モデルが見つかりません", Subcategory.MODEL_NOT_FOUND),
        ("余额不足", Subcategory.QUOTA),
    ],
)
def test_a_name_in_another_language_is_read(said: str, gives: Subcategory) -> None:
    cause = classify(answer(400, ProviderError(code=said)))
    assert cause is not None
    assert cause.subcategory is gives


@each(
    "text, seconds",
    [
        ("Повторите через 2 часа", 7_200.0),
        ("Versuchen Sie es in 5 Minuten erneut", 300.0),
        ("Réessayez dans 3 heures", 10_800.0),
        ("Tente novamente em 30 segundos", 30.0),
        ("Inténtelo de nuevo dentro de 2 días", 172_800.0),
        ("24時間後に再度お試しください", 86_400.0),
        ("10분 후에 다시 시도해 주세요", 600.0),
        ("请在 5 分钟后重试", 300.0),
        ("Der Wert 24 Stunden ist zu lang", None),
    ],
)
def test_a_wait_is_read_in_other_languages(text: str, seconds: float | None) -> None:
    assert stated_wait(text, None) == seconds


# -- what tells a language ----------------------------------------------------------------------


def test_the_language_is_told_by_its_script_or_its_words() -> None:
    for report in REPORTS:
        if report.language != "zh":
            assert report.language in told(report.message), report.message
    assert told("余额不足，请充值") == []
    assert told("") == []


def test_english_is_read_as_english() -> None:
    fresh = (each for each in WORDED if each.set in ("fresh", "later"))
    sentences = [each.message for each in (*fresh, *LOOKALIKES)]
    assert [text for text in sentences if told(text)] == []


def test_a_sentence_of_another_language_is_read_inside_an_english_wrapper() -> None:
    said = "Error from the upstream: Saldo insuficiente. Recargue su cuenta para continuar"
    assert told(said) == ["es"]
    cause = classify(answer(400, ProviderError(message=said)))
    assert cause is not None
    assert cause.subcategory is Subcategory.QUOTA


@each(
    "text, folded",
    [
        ("Límite de Año", "Limite de Ano"),
        ("Schlüssel größer", "Schlussel grosser"),
        ("cœur", "coeur"),
        ("Истёк", "Истек"),
        ("ＡＰＩキー", "APIキー"),
        ("e\u0301puise\u0301", "epuise"),
        ("plain", "plain"),
    ],
)
def test_each_letter_has_one_spelling(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_traditional_characters_become_simplified_but_not_in_japanese() -> None:
    assert simplify("帳戶餘額不足，請儲值") == "帐户余额不足，请储值"
    assert simplify("無効なキー") == "無効なキー"


# -- the words themselves -----------------------------------------------------------------------


@EVERY
def test_words_stand_under_terms_that_exist(language: Language) -> None:
    assert language.subjects.keys() <= {term.id for term in vocabulary().subjects}
    assert language.predicates.keys() <= {term.id for term in vocabulary().predicates}
    assert language.source.strip()


@EVERY
@pytest.mark.parametrize("part", ["subjects", "predicates"])
def test_no_phrase_of_a_language_means_two_things(language: Language, part: str) -> None:
    counts = Counter(
        phrase
        for words in getattr(language, part).values()
        for phrase in {*language.written(words)}
    )
    assert [phrase for phrase, n in counts.items() if n > 1] == []


@EVERY
def test_stems_are_long_enough_to_be_found_by_their_beginning(language: Language) -> None:
    first = [phrase[0] for phrase in language.phrases()]
    assert [word for word in first if word.endswith("*") and len(word) < 4] == []
    inner = [word for phrase in language.phrases() for word in phrase]
    assert [word for word in inner if "*" in word[:-1] or word != word.lower()] == []


@EVERY
def test_every_language_has_words_for_every_cause(language: Language) -> None:
    """A subject and a predicate of each kind that an answer may be lost to."""
    wanted = ("balance", "key", "model", "requests", "server", "context", "content", "field")
    assert [term for term in wanted if not language.subjects.get(term)] == []
    said = ("insufficient", "expired", "not_found", "too_fast", "overloaded", "violates", "missing")
    assert [term for term in said if not language.predicates.get(term)] == []


@each(
    "before, after, said",
    [
        ('code = "de"', "", "code is needed"),
        ('code = "de"', "code = 1", "code: 1 is no text"),
        ("negations", "negation", "unknown key 'negation' (known: code, source, subjects,"),
        ('"ä" = "ae"', '"aeh" = "ae"', "respelled: not a table of single letters"),
        ("[subjects]\n", "[subjects]\nx = 1\n", "subjects: x: 1 is no text"),
    ],
    ids=lambda case: case[2],
)
def test_a_mistake_is_told_by_file_and_key(before: str, after: str, said: str) -> None:
    file = "languages/german.toml"
    text = (DATA / file).read_text("utf-8")
    assert before in text
    with pytest.raises(ValueError) as raised:
        read_language("german", lambda _: tomllib.loads(text.replace(before, after, 1)))
    assert str(raised.value).startswith(f"{file}: {said}")
