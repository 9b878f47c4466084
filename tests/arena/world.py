"""A provider that behaves as the world does: by its own state, whoever asks, or by what is asked.

A lane is a model that it serves. What a lane does hangs on nothing but its state and the question:
that a question is the service's own reference cannot be seen in it but by what it asks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tests.arena import dialects
from tests.arena.dialects import Dialect, Problem, Question
from tests.fakes.answers import encoded, whole
from tests.fakes.provider import Answer, Cut, Hang, Pause, Request, Step, Wait
from tests.fakes.replies import Finish, Reply

OPERATOR = "sk-operators-key"

Played: TypeAlias = Answer | tuple[Step, ...]
Failure: TypeAlias = Callable[[Question], Played]
Behaviour: TypeAlias = Callable[[Question], Played | None]
"""What a lane does at a question; None where it is well and answers."""


def well(_: Question) -> None:
    """Answer."""


@dataclass(slots=True)
class Lane:
    """A model that is served; ``asked`` are the questions that came."""

    behaviour: Behaviour = well
    asked: list[Question] = field(default_factory=list)


class World:
    """What a `Provider` plays: each lane by its behaviour, the rest as providers do.

    ``silences`` counts the questions that were left without an answer.
    """

    def __init__(self) -> None:
        self.silences = 0
        self._listings: dict[str, Failure] = {}
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def serve(self, model: str) -> Lane:
        """Serve a model from now on; it is well."""
        return self._lanes.setdefault(model, Lane())

    def behaves(self, model: str, behaviour: Behaviour) -> None:
        """Have a lane do this from now on."""
        self._lanes[model].behaviour = behaviour

    def __call__(self, request: Request) -> Played:
        question = dialects.read(request)
        if question is None:
            return self._no_question(request)
        if question.key != OPERATOR:
            return WRONG_KEY.answer(question)
        with self._lock:
            lane = self._lanes.get(question.model)
            if lane is None:
                return not_served(question)
            lane.asked.append(question)
            played = lane.behaviour(question)
            played = dialects.answered(question) if played is None else played
            steps = played if isinstance(played, tuple) else played.body
            self.silences += any(isinstance(step, Hang) for step in steps)
        return played

    def fails_listing(self, target: str, failure: Failure) -> None:
        """Fail a listing of models that is asked for so, behind its path."""
        self._listings[f"/models{target}"] = failure

    def _no_question(self, request: Request) -> Played:
        """Answer what is no inference call that is answered at once."""
        for target, failure in self._listings.items():
            if request.target.endswith(target):
                return failure(_LISTING)
        if request.method == "POST" and request.path.endswith("/responses"):
            return _background(json.loads(request.body)["model"], "queued")
        if "/responses/resp_" in request.path:
            return _background(request.path.rpartition("resp_")[2], "in_progress")
        return _listed(request)


_LISTING = Question(dialect=Dialect.CHAT, model="", streams=False, tools=False, limit=None,
                    body={}, text="", headers={})  # fmt: skip


def _background(model: str, status: str) -> Answer:
    return whole(
        {
            "id": f"resp_{model}", "object": "response", "status": status, "background": True,
            "error": None, "model": model, "output": [], "usage": None,
        }
    )  # fmt: skip


WRONG_KEY = Problem(status=401, message="Incorrect API key provided.")
_NO_MODEL = {
    Dialect.CHAT: "The model `{}` does not exist or you do not have access to it.",
    Dialect.MESSAGES: "model: {}",
    Dialect.GEMINI: "models/{} is not found for API version v1beta.",
    Dialect.CONVERSE: "The provided model identifier is invalid: {}",
}


def not_served(question: Question) -> Answer:
    """Say in the dialect's own words that there is no such model."""
    status = 400 if question.dialect is Dialect.CONVERSE else 404
    message = _NO_MODEL[question.dialect].format(question.model)
    return Problem(status=status, message=message).answer(question)


def _listed(request: Request) -> Answer:
    if request.method == "GET" and request.path.endswith("/models"):
        return whole({"object": "list", "data": []})
    return whole({"error": {"message": "no such route"}}, 404)


# --- behaviours ----------------------------------------------------------------------------


def down(failure: Failure) -> Behaviour:
    """Fail whoever asks."""
    return failure


def when(strikes: Callable[[Question], bool], failure: Failure) -> Behaviour:
    """Fail what is asked so; answer the rest."""
    return lambda question: failure(question) if strikes(question) else None


LONG_TEXT = 8_000  # from here on, and from this many tokens of an answer, size alone is what fails
LONG_ANSWER = 48_000


def _has(question: Question, name: str, value: Any) -> bool:
    """Return True if a question has what an argument of `Agent.ask` puts into it."""
    match name:
        case "limit":
            return (question.limit or 0) >= LONG_ANSWER
        case "text" if len(value) > LONG_TEXT:
            return len(question.text) > LONG_TEXT
        case "text":
            return json.dumps(value)[1:-1] in question.text
        case "streams" | "tools":
            return bool(getattr(question, name))
        case "mount":
            return question.path.startswith(f"{value}/")
        case "headers":
            return all(shown in question.headers.get(key, "") for key, shown in value.items())
    return name in question.body


def asks(**asked: Any) -> Callable[[Question], bool]:
    """Tell the questions that `Agent.ask` makes of these arguments."""
    return lambda question: all(_has(question, *each) for each in asked.items())


def by_turns(failure: Failure, *, of: int) -> Behaviour:
    """Be that many replicas behind a round robin, the last of which fails."""
    turns = iter(range(10**9))

    def behave(question: Question) -> Played | None:
        return failure(question) if next(turns) % of == of - 1 else None

    return behave


def blip(failure: Failure, *, questions: int) -> Behaviour:
    """Fail that many questions, and be well again."""
    left = iter(range(questions))
    return lambda question: failure(question) if next(left, None) is not None else None


def together(failure: Failure, *, calls: int) -> Behaviour:
    """Hold that many questions, fail all at once when the last has come, and be well again."""
    came: Iterator[int] = iter(range(1, calls + 1))
    all_came = threading.Event()

    def behave(question: Question) -> Played | None:
        number = next(came, None)
        if number is None:
            return None
        if number == calls:
            all_came.set()
        played = failure(question)
        steps = played if isinstance(played, tuple) else tuple(played.steps("POST"))
        return (Wait(all_came), *steps)

    return behave


# --- failures ------------------------------------------------------------------------------


def problem(
    status: int,
    message: str,
    *headers: tuple[str, str],
    inside: bool = False,
    **names: str,
) -> Failure:
    """An error that the provider states; ``names`` by dialect, as ``chat="insufficient_quota"``."""
    stated = Problem(
        status=status, message=message, headers=headers, inside=inside,
        names={Dialect[dialect.upper()]: name for dialect, name in names.items()},
    )  # fmt: skip
    return stated.answer


def page(status: int, title: str, server: str = "nginx") -> Failure:
    """A gateway's page."""
    text = f"<html><head><title>{status} {title}</title></head><body><h1>{title}</h1></body></html>"
    headers = (("content-type", "text/html"), ("server", server))
    return lambda _: Answer(status=status, headers=headers, body=(text.encode(),))


def reset(_: Question) -> Played:
    """Close the connection with a RST before a word."""
    return (Cut(reset=True),)


def cut(question: Question) -> Played:
    """Begin the answer, and cut it midway."""
    answer = dialects.answered(question)
    if question.streams:
        return answer.stopping_after(2, Cut())
    return Answer(body=(answer.content[:40], Cut()), length=len(answer.content))


def empty(_: Question) -> Played:
    """A 200 without a body."""
    return Answer(body=())


def wordless(question: Question) -> Played:
    """Answer well, and with nothing."""
    reply = Reply(model=question.model, input_tokens=240, output_tokens=0)
    return dialects.said(question, reply)


def elsewhere(status: int, location: str) -> Failure:
    """Redirect."""
    return lambda _: Answer(status=status, headers=(("location", location),))


def half_encoded(question: Question) -> Played:
    """Answer compressed, and end midway as if it were whole."""
    answer = encoded(dialects.answered(question), "gzip")
    return replace(answer, body=(answer.content[:30],))


def silent(_: Question) -> Played:
    """Take the question and say nothing."""
    return (Hang(),)


def stalled(question: Question) -> Played:
    """Begin a stream and go silent; say nothing at all where none is asked for."""
    if not question.streams:
        return (Hang(),)
    return dialects.answered(question).stopping_after(2, Hang())


def aborted(question: Question, *, text: str = "") -> Answer:
    """End as engines do that abort what runs: with a finish reason that no API names."""
    reply = Reply(model=question.model, input_tokens=240, output_tokens=3 if text else 0,
                  text=(text,) if text else (), finish=Finish.ABORT)  # fmt: skip
    return dialects.said(question, reply)


def late(seconds: float, failure: Failure) -> Failure:
    """Fail after so long, as a gateway's time-out does."""

    def fail(question: Question) -> Played:
        played = failure(question)
        steps = played if isinstance(played, tuple) else tuple(played.steps("POST"))
        return (Pause(seconds), *steps)

    return fail
