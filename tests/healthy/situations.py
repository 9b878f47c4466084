"""What agents do: each situation is a story told to one agent, as calls to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.healthy import contents, texts
from tests.healthy.agent import EXPLORING, TOOLS, Agent, many_tools
from tests.healthy.conversation import Ask, Compacted, Reply
from tests.healthy.incidents import INCIDENTS
from tests.healthy.lanes import Lane

_TITLER = "Write a title of at most six words for the conversation. Answer with the title only."


def _task(agent: Agent) -> None:
    agent.user(agent.task)


def _work(agent: Agent, steps: int) -> None:
    for _ in range(steps):
        agent.step()


def tools(agent: Agent) -> None:
    """A task done with tools."""
    _task(agent)
    _work(agent, agent.rng.randrange(1, 11))
    agent.answer()


def long_run(agent: Agent) -> None:
    """Many steps of one growing conversation."""
    _task(agent)
    _work(agent, agent.rng.randrange(18, 38))
    agent.answer()


def parallel(agent: Agent) -> None:
    """Several calls of tools in one answer."""
    _task(agent)
    for uses in (2, 5, 1, 3)[: agent.rng.randrange(2, 5)]:
        agent.step(uses=uses)
    agent.answer()


def compaction(agent: Agent) -> None:
    """The agent has its conversation summarised and goes on from the summary."""
    _task(agent)
    _work(agent, agent.rng.randrange(5, 12))
    agent.user("Summarise the work so far for someone who continues it: files, decisions, next.")
    offered, agent.tools = agent.tools, agent.rng.choice(((), agent.tools))
    agent.answer(texts.prose(agent.rng, 25))
    agent.tools = offered
    summary = agent.messages[-1].text
    if agent.rng.random() < 0.5:
        agent.begin_again(f"This session continues an earlier one.\n\n{summary}")
    else:
        agent.begin_again(agent.task, f"<summary>\n{summary}\n</summary>")
    _work(agent, agent.rng.randrange(2, 6))
    agent.answer()


def context_editing(agent: Agent) -> None:
    """Old results are cleared: by the provider where it can, else by the agent itself."""
    _task(agent)
    by_provider = agent.lane.key in ("anthropic", "anthropic-code")
    for step in range(agent.rng.randrange(8, 14)):
        clears = step > 5
        if clears and not by_provider:
            agent.forget(keep=3)
        agent.step(lambda rng: texts.log(rng, 12), cleared=1_800 if clears and by_provider else 0)
    agent.answer(cleared=1_800 if by_provider else 0)


def sliding_window(agent: Agent) -> None:
    """Only the task and the last messages are kept."""
    _task(agent)
    first = agent.messages
    for _ in range(agent.rng.randrange(6, 12)):
        agent.step()
        agent.messages = first + agent.messages[1:][-6:]
    agent.answer()


def subagents(agent: Agent) -> None:
    """Other agents explore for this one, some at the same time, some asked the same."""
    _task(agent)
    agent.step()
    same = texts.prose(agent.rng, 3)
    gathered: list[list[Ask]] = []
    for number in range(agent.rng.randrange(1, 4)):
        helper = agent.explorer()
        helper.user(same if agent.rng.random() < 0.5 else texts.prose(agent.rng, 3))
        _work(helper, agent.rng.randrange(1, 4))
        helper.answer()
        if number:
            helper.asks[0] = replace(helper.asks[0], beside=agent.rng.uniform(0.0, 0.4))
        gathered.append(helper.asks)
    for turns in zip(*gathered, strict=False):
        agent.asks += turns
    shortest = min(map(len, gathered))
    agent.asks += [ask for asks in gathered for ask in asks[shortest:]]
    agent.step()
    agent.answer()


def side_calls(agent: Agent) -> None:
    """A title by a small model, a look whether there is quota left, and the work."""
    _task(agent)
    side = Agent(agent.rng, agent.lane, system=_TITLER, tools=())
    side.user(agent.messages[0].text)
    model = "side" if agent.lane.side else "main"
    said = agent.rng.choice(("Fix ledger rounding", "Repair the importer", "Late orders"))
    title = side.ask(Reply(text=said), model=model, streamed=False, max_tokens=64)
    quota = Agent(agent.rng, agent.lane, system="", tools=())
    quota.system = ""
    quota.user("quota")
    if agent.lane.dialect == "ollama":
        agent.asks.append(quota.ask(Reply(), probe="load"))
    if agent.lane.key == "anthropic-code":  # at its start, as Claude Code does
        ask = quota.ask(Reply(text="#", finish="length"), model=model, streamed=False, max_tokens=1)
        agent.asks.append(ask)
    agent.asks.append(title)
    _work(agent, agent.rng.randrange(1, 6))
    agent.answer()


def big_agent(agent: Agent) -> None:
    """A coding agent with pages of instructions and two dozen tools."""
    agent.system = texts.prose(Random(agent.lane.key), 260)
    agent.tools = many_tools(24)
    _task(agent)
    _work(agent, agent.rng.randrange(1, 5))
    agent.answer()


def changed_tools(agent: Agent) -> None:
    """Tools come and go: planning has none, a server adds some later."""
    _task(agent)
    agent.tools = EXPLORING
    agent.step()
    agent.tools = TOOLS
    _work(agent, 2)
    agent.tools = TOOLS + many_tools(3)
    _work(agent, agent.rng.randrange(1, 4))
    agent.answer()


def beside(agent: Agent) -> None:
    """Listings, counts of tokens and embeddings beside the work."""
    _task(agent)
    for probe in ("models", "count", "embed")[: agent.rng.randrange(1, 4)]:
        ask = agent.ask(Reply(), probe=probe)
        assert ask.probe
    agent.step()
    agent.ask(Reply(), probe="count")
    agent.answer()


def judged(agent: Agent) -> None:
    """A user who is simulated, and a judge at the end, with calls of their own."""
    rng = agent.rng
    user = Agent(rng, agent.lane, system="You play a customer whose parcel is late.", tools=())
    user.user("Say your first sentence.")
    for _ in range(rng.randrange(1, 4)):
        said = texts.sentence(rng)
        user.answer(said, role="user")
        agent.asks.append(user.asks[-1])
        agent.user(said)
        agent.step()
        agent.answer()
        user.user(agent.messages[-1].text)
    judge = Agent(rng, agent.lane, system="Grade the conversation from 0 to 1.", tools=())
    judge.user("\n".join(m.text for m in agent.messages))
    elsewhere = "openai-dated" if rng.random() < 0.5 and agent.lane.flavour != "socket" else None
    grade = judge.ask(
        Reply(text='{"score": 1.0}'), role="judge", streamed=False, elsewhere=elsewhere
    )
    agent.asks.append(grade)


def begun_twice(agent: Agent) -> None:
    """The agent's process dies and it begins its task anew."""
    _task(agent)
    first = agent.messages
    _work(agent, agent.rng.randrange(1, 5))
    agent.messages = first
    _work(agent, agent.rng.randrange(1, 5))
    agent.answer(gap_s=agent.rng.uniform(5.0, 30.0))


def branching(agent: Agent) -> None:
    """A search over plans: the conversation goes back and on another way."""
    _task(agent)
    kept = [agent.messages]
    for _ in range(agent.rng.randrange(4, 10)):
        agent.messages = agent.rng.choice(kept)
        agent.step(temperature=1.0)
        kept.append(agent.messages)
    agent.answer()


def remote_compaction(agent: Agent) -> None:
    """The provider compacts the conversation into what only it can read."""
    _task(agent)
    first = agent.messages
    _work(agent, agent.rng.randrange(4, 9))
    sealed = texts.base64_text(agent.rng, 2_400)
    agent.ask(Reply(text=sealed), compacts=True, streamed=False)
    agent.messages = first
    agent.user(Compacted(sealed=sealed, size=600))
    _work(agent, agent.rng.randrange(1, 5))
    agent.answer()


def submitted(agent: Agent) -> None:
    """The work is handed in by a call of a tool, and the loop ends there."""
    _task(agent)
    _work(agent, agent.rng.randrange(1, 9))
    agent.submit()


def out_of_steps(agent: Agent) -> None:
    """The harness stops the loop after so many steps, whatever the model asks for."""
    _task(agent)
    _work(agent, agent.rng.choice((5, 10, 15)))


def killed(agent: Agent) -> None:
    """The task's time is over while an answer comes."""
    _task(agent)
    for _ in range(agent.rng.randrange(3, 9)):
        agent.step(gap_s=agent.rng.uniform(20.0, 200.0))
    agent.answer(texts.prose(agent.rng, 12), streamed=True, killed=True)


def queued(agent: Agent) -> None:
    """A busy server or much reasoning: the first byte takes a minute or four."""
    _task(agent)
    for _ in range(agent.rng.randrange(1, 5)):
        agent.step(queued_s=agent.rng.uniform(20.0, 240.0))
    agent.answer(queued_s=agent.rng.uniform(5.0, 120.0))


def two_models(agent: Agent) -> None:
    """One model plans, a smaller one carries it out with the same tools."""
    _task(agent)
    _work(agent, 2)
    agent.answer()
    for _ in range(agent.rng.randrange(2, 8)):
        if agent.messages[-1].role == "assistant":
            agent.user("Go on.")
        agent.step(model="side")
    agent.answer()


def polling(agent: Agent) -> None:
    """A build is waited for: the same call again and again."""
    _task(agent)
    agent.step()
    for _ in range(agent.rng.randrange(3, 9)):
        agent.step(lambda _: "running", text="Still running. I will look again.", gap_s=30.0)
    agent.step(lambda _: "done", gap_s=30.0)
    agent.answer()


def slow_tools(agent: Agent) -> None:
    """Tests take minutes."""
    _task(agent)
    for _ in range(agent.rng.randrange(2, 6)):
        agent.step(gap_s=agent.rng.uniform(60.0, 420.0))
    agent.answer(gap_s=200.0)


def silent_end(agent: Agent) -> None:
    """After the last result the model has nothing to add, and ends its turn without a word."""
    _task(agent)
    _work(agent, agent.rng.randrange(2, 5))
    if agent.lane.dialect in ("messages", "converse"):
        agent.ask(Reply())
    else:
        agent.answer("Done.")


def _with(incident: str) -> Callable[[Agent], None]:
    def story(agent: Agent) -> None:
        tools(agent)
        struck = agent.rng.sample(range(len(agent.asks)), min(len(agent.asks), 2))
        for index in struck:
            agent.asks[index] = replace(agent.asks[index], incident=incident)

    story.__doc__ = f"The work is struck by {incident}, and goes on."
    return story


def _always(lane: Lane) -> bool:
    return True


def _tools(lane: Lane) -> bool:
    return not lane.text_only


def _sees(lane: Lane) -> bool:
    return lane.sees and _tools(lane)


def _choices(lane: Lane) -> bool:
    return lane.dialect == "chat" and lane.flavour in ("", "azure", "vllm", "sglang")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    story: Callable[[Agent], None]
    fits: Callable[[Lane], bool] = _tools


def _rows(
    fits: Callable[[Lane], bool], stories: Iterable[Callable[[Agent], None]]
) -> Mapping[str, Situation]:
    return {story.__name__: Situation(story=story, fits=fits) for story in stories}


_SEARCH = ("anthropic", "gemini-pro", "gemini-latest", "interactions", "responses")
_SCHEMAS = ("chat", "responses", "gemini", "interactions", "ollama")
SITUATIONS: Mapping[str, Situation] = {
    **_rows(_always, contents.IN_WORDS),
    **_rows(_tools, (tools, long_run, parallel, compaction, context_editing, sliding_window,
                     subagents, side_calls, big_agent, changed_tools, beside, judged, begun_twice,
                     polling, branching, slow_tools, submitted, out_of_steps,
                     killed, queued, silent_end, *contents.WITH_TOOLS)),
    **_rows(_sees, (contents.pictures, contents.documents)),
    **_rows(_choices, (contents.choices,)),
    **_rows(lambda lane: _choices(lane) and not lane.reasons, (contents.scored,)),
    **_rows(lambda lane: lane.reasons, (contents.heavy_thinking,)),
    **_rows(lambda lane: lane.dialect in _SCHEMAS, (contents.structured,)),
    **_rows(lambda lane: lane.key in ("gemini-pro", "gemini-latest"), (contents.stored_context,)),
    **_rows(lambda lane: lane.side is not None, (two_models,)),
    **_rows(lambda lane: lane.key in _SEARCH, (contents.server_search,)),
    **_rows(lambda lane: lane.dialect == "messages" and lane.sees, (contents.computer,)),
    **_rows(lambda lane: lane.is_claude and not lane.reasons, (contents.prefilled,)),
    **_rows(lambda lane: lane.key == "responses-codex", (remote_compaction,)),
    **{one: Situation(story=_with(one)) for one in INCIDENTS},
}  # fmt: skip
