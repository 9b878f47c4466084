"""The truth table: rollouts as sequences of calls, both policies' verdicts, and why.

``lost``: the provider failed the rollout and a zero of it means nothing. ``fair``: a model
was reached and a zero is the agent's own. ``untold``: nobody can say, or nobody asked.
Calls are written in the language of ``tests.builders``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from classifier.records import RolloutRecord
from tests.builders import rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rollout.

    ``evidence`` is ``rule fingerprint`` or a health, ``seed`` the same; None where the first
    release's rule is not asked. ``scoreable`` None is not asked either.
    """

    calls: str
    lost: bool | None
    evidence: str
    seed: str | None
    why: str
    scoreable: str | None = None
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def rollout(self) -> RolloutRecord:
        return rollout(self.calls, **self.said)

    def __str__(self) -> str:
        said = ",".join(f"{name}={value}" for name, value in self.said.items())
        return f"{self.calls or 'no calls'} [{said}]" if said else self.calls or "no calls"


TABLE: list[Row] = []
QUIET = "suspected:zero_signal"


def lost(calls: str, evidence: str, seed: str, why: str, **said: Any) -> None:
    row = Row(calls=calls, lost=True, evidence=evidence, seed=seed, why=why, said=said)
    TABLE.append(row)


def fair(calls: str, why: str, *, seed: str = "healthy", **said: Any) -> None:
    row = Row(calls=calls, lost=False, evidence="healthy", seed=seed, why=why, said=said)
    TABLE.append(row)


def own(calls: str, seed: str, why: str) -> None:
    """Add an untrusted agent's rollout that no model answered, by its own doing."""
    said = {"agents": "untrusted"}
    row = Row(calls=calls, lost=False, evidence="own_failures", seed=seed, why=why, said=said)
    TABLE.append(row)


def untold(calls: str, evidence: str, seed: str, why: str, **said: Any) -> None:
    row = Row(calls=calls, lost=None, evidence=evidence, seed=seed, why=why, said=said)
    TABLE.append(row)


def dead(calls: str, fingerprint: str, why: str, **said: Any) -> None:
    """Every call failed with a plain status: both policies see it alike."""
    lost(calls, f"all_failed {fingerprint}", f"all_failed {fingerprint}", why, **said)


# Every call failed, and the status says all there is to know.
dead("401", "auth:401", "one refused key is enough: the agent never got a word")
dead("401*4", "auth:401", "agents go on retrying a dead key")
dead("401*40", "auth:401", "for minutes")
dead("403", "auth:403", "a key that is not allowed here")
dead("403*2", "auth:403", "stays not allowed")
dead("402*3", "quota:402", "no credits left")
dead("404*2", "model_not_found:404", "the model under test does not exist for this account")
dead("429", "rate_limit:429", "an agent that gives up after one throttled call never began")
dead("429*8", "rate_limit:429", "a short window that outlasted the agent's patience")
dead("408*2", "provider_error:408", "the provider timed out")
dead("500*3", "provider_error:500", "the provider broke")
dead("502*3", "provider_error:502", "a gateway without a backend")
dead("503*3", "provider_error:503", "unavailable")
dead("504*2", "provider_error:504", "a gateway that waited in vain")
dead("529*6", "provider_error:529", "Anthropic overloaded")
dead("400*2", "rejected_request:400", "nothing the agent sent was ever accepted")
dead("413", "rejected_request:413", "the first request was too large, and there was no second")
dead("422*2", "rejected_request:422", "nor would it ever have been")
dead("409", "rejected_request:409", "a status without a row of its own is about the request")
dead("401*3", "auth:401", "points for a run that never reached a model mean nothing",
     rewards={"reward": 1.0})  # fmt: skip
dead("503*3", "provider_error:503", "nor does a missing reward make it healthy", rewards=None)
dead("429*3", "rate_limit:429", "a count of zero tokens agrees", total_tokens=0, tool_calls=0)

# Mixed failures: the most frequent status names it, on a tie the last one.
dead("429*3 500", "rate_limit:429", "three to one")
dead("429 500*3", "provider_error:500", "one to three")
dead("429 500", "provider_error:500", "on a tie the one that failed last")
dead("500 429", "rate_limit:429", "on a tie the one that failed last")
dead("401 429*2 401", "auth:401", "on a tie the one that failed last, wherever it began")
dead("503 502 503", "provider_error:503", "two kinds of outage")
dead("400 401*2", "auth:401", "a rejected first try does not hide the dead key")
dead("404 429 404 429 404", "model_not_found:404", "three to two")
dead("529*2 500*2 503*2", "provider_error:503", "a three-way tie")
dead("402 402 429", "quota:402", "money first, then the window")

# The body says more than the status: only evidence reads it.
lost("429+quota*4", "all_failed quota:429", "all_failed rate_limit:429",
     "an empty account at OpenAI is a 429, and waiting does not fill it")  # fmt: skip
lost("400+quota*2", "all_failed quota:400", "all_failed rejected_request:400",
     "an empty account at Anthropic is a 400")  # fmt: skip
lost("403+quota", "all_failed quota:403", "all_failed auth:403", "a spent key at OpenRouter")
lost("400+auth*2", "all_failed auth:400", "all_failed rejected_request:400",
     "a wrong key at Gemini is a 400")  # fmt: skip
lost("400+region", "all_failed auth:400", "all_failed rejected_request:400",
     "a region that is not served")  # fmt: skip
lost("403+region", "all_failed auth:403", "all_failed auth:403", "the same as a 403")
lost("400+model_not_found*2", "all_failed model_not_found:400", "all_failed rejected_request:400",
     "the Responses API answers an unknown model with 400")  # fmt: skip
lost("403+model_not_found", "all_failed model_not_found:403", "all_failed auth:403",
     "a model that the project may not use")  # fmt: skip
lost("404+wrong_endpoint*3", "all_failed rejected_request:404", "all_failed model_not_found:404",
     "a wrong base_url is no missing model")  # fmt: skip
lost("500+rejected_request", "all_failed rejected_request:500", "all_failed provider_error:500",
     "llama.cpp answers a caller's mistake with 500")  # fmt: skip
lost("503+rate_limit*2", "all_failed rate_limit:503", "all_failed provider_error:503",
     "Vertex wraps a 429 into a 5xx")  # fmt: skip
lost("413+too_large", "all_failed rejected_request:413", "all_failed rejected_request:413",
     "larger than a minute's allowance")  # fmt: skip
lost("402+transient*2", "all_failed quota:402", "all_failed quota:402",
     "OpenRouter's in-flight budget")  # fmt: skip
lost("429+quota 429*2", "all_failed rate_limit:429", "all_failed rate_limit:429",
     "within one status the more frequent cause names it")  # fmt: skip
lost("429+quota*2 429", "all_failed quota:429", "all_failed rate_limit:429",
     "within one status the more frequent cause names it")  # fmt: skip
lost("429 429+quota", "all_failed quota:429", "all_failed rate_limit:429",
     "on a tie the cause that came last")  # fmt: skip
lost("400+context_length*2", "all_failed rejected_request:400", "all_failed rejected_request:400",
     "a prompt that is too long from the start: nothing else ever succeeded")  # fmt: skip
lost("400+content_filter", "all_failed rejected_request:400", "all_failed rejected_request:400",
     "Azure's filter stopped the task's own prompt")  # fmt: skip
lost("400+unsupported*3", "all_failed rejected_request:400", "all_failed rejected_request:400",
     "a parameter this model does not take")  # fmt: skip

# A content filter: on a request a failure unless the batch says otherwise, on an answer an answer.
FILTERED = "all_failed rejected_request:400"
fair("400+content_filter*2", "what a safety evaluation is about", content_filter="answer",
     seed=FILTERED)  # fmt: skip
fair("403+content_filter", "whatever its status", content_filter="answer",
     seed="all_failed auth:403")  # fmt: skip
fair("200+tool 400+content_filter", "at the end too", content_filter="answer")
fair("200+content_filter", "the filter stopped an answer, inside a 200", seed=QUIET)
fair("200+text+content_filter", "in the middle of its words")
fair("200+tool 200+content_filter*2", "nor does it interrupt what went before")
lost("400+content_filter 401", "all_failed auth:401", "all_failed auth:401",
     "a tie: the one that failed last", content_filter="failure")  # fmt: skip
lost("400+content_filter 401*2", "interrupted auth:401", "all_failed auth:401",
     "an answer of the filter, then a dead key", content_filter="answer")  # fmt: skip
lost("400+context_length", FILTERED, FILTERED, "another rejection is none of it",
     content_filter="answer")  # fmt: skip

# Failures that wear a 200: a status-only judge sees success.
lost("200+provider_error*2", "all_failed provider_error:200", QUIET,
     "an error event inside the stream")  # fmt: skip
lost("200+rate_limit*3", "all_failed rate_limit:200", QUIET, "throttled inside a 200")
lost("200+quota", "all_failed quota:200", QUIET, "a stream can end in insufficient_quota")
lost("200+empty_body*2", "all_failed provider_error:200", QUIET, "an empty body is no answer")
lost("200+html_body*2", "all_failed provider_error:200", QUIET, "a captive portal's page")
lost("200+truncated*2", "all_failed provider_error:200", QUIET,
     "a stream that ended without a finish reason")  # fmt: skip
lost("200+truncated*276", "all_failed provider_error:200", QUIET,
     "a real agent repeated a cut stream 276 times in 30 s")  # fmt: skip
lost("200+auth", "all_failed auth:200", QUIET, "a gateway that answers every error with 200")
lost("200+text+truncated", "interrupted provider_error:200", "healthy",
     "half an answer, and then the line was dead")  # fmt: skip
lost("200+text+truncated*3", "interrupted provider_error:200", "healthy", "three half answers")
lost("200+tool 200+truncated*2", "interrupted provider_error:200", "healthy",
     "cut off in its second step")  # fmt: skip
lost("200+tool 200+quota", "interrupted quota:200", "healthy", "the money ran out mid-stream")
fair("200+truncated 200", "a cut stream that was repeated and came whole")
fair("200+provider_error*3 200+tool 200", "an overloaded start, then a whole run")
fair("200+text+truncated 200+tool", "half an answer is made good by a whole one")
lost("429 200+provider_error", "all_failed provider_error:200", QUIET,
     "the seed sees a 200 and no token")  # fmt: skip

# No answer at all: no status to count.
lost("net*3", "all_failed provider_error:network", QUIET, "nobody listens there")
lost("timeout*2", "all_failed provider_error:network", QUIET, "no byte before the limit")
lost("stalled*2", "all_failed provider_error:network", QUIET,
     "the agent hung up, but only after a minute of silence")  # fmt: skip
lost("net 503", "all_failed provider_error:503", "all_failed provider_error:503",
     "on a tie the one that failed last")  # fmt: skip
lost("net*2 503", "all_failed provider_error:network", "all_failed provider_error:503",
     "the seed does not count a call without a status")  # fmt: skip
lost("200+tool net*2", "interrupted provider_error:network", "healthy", "the line went dead")
lost("200+tool*5 timeout", "interrupted provider_error:network", "healthy", "and stayed dead")
lost("200 stalled", "interrupted provider_error:network", "healthy", "silence at the end")
fair("net 200", "a connection that came up at the second try")
fair("timeout*2 200+tool 200", "slow to start")
fair("200 stalled 200", "one stall in the middle")

# Failures that a later success follows are recovered.
fair("429 200", "one throttled call")
fair("429*5 200", "five")
fair("500 503 529 200+tool 200", "a bad minute")
fair("200+tool 429 200+tool 429 200", "throttled every other call, and finished")
fair("401 200", "a key that was not active yet")
fair("402 200", "someone topped up the account")
fair("404 200", "a probe for the wrong name, then the right one")
fair("400 200", "a parameter dropped on the second try")
fair("400+context_length 200+tool 200", "compacted and went on")
fair("200+tool*10 503*3 200", "an outage in the middle")
fair("200+tool 529 200+tool 529*4 200", "two")
fair("429+quota 200", "even a quota that came back")

# Cut off: output first, then the last calls to the model failed and nothing followed.
lost("200+tool 401", "interrupted auth:401", "healthy", "a key revoked mid-run")
lost("200+tool 401*2", "interrupted auth:401", "healthy", "and tried again")
lost("200+tool*3 402*3", "interrupted quota:402", "healthy", "the credits ran out")
lost("200+tool*3 429+quota*2", "interrupted quota:429", "healthy", "the same at OpenAI")
lost("200+tool 429*6", "interrupted rate_limit:429", "healthy", "throttled to death")
lost("200 503", "interrupted provider_error:503", "healthy", "an outage at the end")
lost("200 404", "interrupted model_not_found:404", "healthy", "a model withdrawn mid-run")
lost("200+tool*30 529*10", "interrupted provider_error:529", "healthy", "thirty steps, then none")
lost("429 200+tool 429*2", "interrupted rate_limit:429", "healthy", "recovered once, not twice")
lost("200 401 503 401", "interrupted auth:401", "healthy", "the most frequent of the last ones")
lost("200 503 401", "interrupted auth:401", "healthy", "on a tie the one that failed last")
lost("200+tool 400 429", "interrupted rate_limit:429", "healthy",
     "a rejection on the way does not hide what came last")  # fmt: skip
lost("200+tool 429 400 429", "interrupted rate_limit:429", "healthy", "nor in between")
lost("200+tool 503 left", "interrupted provider_error:503", "healthy",
     "an abandoned retry is no recovery")  # fmt: skip
lost("200+tool 503*3", "interrupted provider_error:503", "healthy",
     "a verifier that gave points for half the work changes nothing",
     rewards={"reward": 1.0})  # fmt: skip
lost("200+tool 503*3", "interrupted provider_error:503", "healthy",
     "nor does the runner's own error", status="agent_error", error="exit code 1")  # fmt: skip
lost("200+tool 529*9", "interrupted provider_error:529", "healthy",
     "a timeout spent on retries", status="task_timeout")  # fmt: skip
lost("200+empty 503*2", "interrupted provider_error:503", "healthy",
     "nothing came, and then it broke: that is proven, not suspected")  # fmt: skip
lost("200+nousage 401*2", "interrupted auth:401", QUIET,
     "output without a usage block is output; the seed reads no tokens there")  # fmt: skip

# A last call that was rejected is the agent's own doing.
fair("200+tool 400+malformed", "its last request was malformed")
untold("200+tool 400", "healthy", "healthy", "its last request was rejected, without a reason")
fair("200+tool*20 400+context_length", "it overran its budget")
fair("200+tool*20 400+context_length*3", "and tried the same again")
fair("200+tool 413+too_large", "its last request was too large")
fair("200 400+content_filter", "its last request was filtered")
fair("200 404+wrong_endpoint", "it asked for a route that is not there")
fair("200+tool 422+unsupported*2", "a parameter it invented")
lost("200+tool 429 400", "interrupted rate_limit:429", "healthy",
     "throttled, then rejected: the stronger word counts")  # fmt: skip
untold("200+tool 422*2", "unexplained_rejections suspected:unexplained_rejections", "healthy",
       "rejected twice alike, and nobody says whose doing it was")  # fmt: skip

# Side calls to a small model succeed while the model under test is dead.
lost("200+side 404", "main_model_failed model_not_found:404", "healthy", "a title, then nothing")
lost("200+side 401*3", "main_model_failed auth:401", "healthy", "the key opens the small one only")
lost("404 200+side", "main_model_failed model_not_found:404", "healthy", "in the other order")
lost("200+side*5 429*5", "main_model_failed rate_limit:429", "healthy", "five titles")
lost("200+side 429+quota*2 200+side", "main_model_failed quota:429", "healthy", "before and after")
lost("200+side 200+truncated*2", "main_model_failed provider_error:200", "healthy",
     "the routing call came whole, the real ones never")  # fmt: skip
lost("200+side net*2", "main_model_failed provider_error:network", "healthy", "another host")
lost("200+side 400*2", "main_model_failed rejected_request:400", "healthy",
     "every real request was refused")  # fmt: skip
lost("200@o4 404@o5*2", "main_model_failed model_not_found:404", "healthy",
     "the runner named the model under test", model="o5")  # fmt: skip
lost("200@o4*9 401@o5", "main_model_failed auth:401", "healthy",
     "named beats most bytes", model="o5")  # fmt: skip
lost("200@o4 404@o5", "main_model_failed model_not_found:404", "healthy",
     "named with the router's path before it", model="openai/o5")  # fmt: skip
lost("200@o4*3 404@o5-2026-01-31*2", "main_model_failed model_not_found:404", "healthy",
     "named without its date", model="o5")  # fmt: skip
lost("200+toolless@a 503@b*2", "main_model_failed provider_error:503", "healthy",
     "the one whose calls carry tools is the main one")  # fmt: skip
lost("200+toolless@a 503+toolless@b*2", "main_model_failed provider_error:503", "healthy",
     "without tools anywhere, the one with the most bytes")  # fmt: skip
fair("429+side 200+tool", "a title that failed harms nothing")
fair("404+side*3 200+tool 200", "a small model that does not exist harms nothing")
fair("200+tool 200 401+side", "the recap failed, the work was done")
fair("200+tool 200 503+side*4", "however often")
fair("200@o4 200@o5 404@o4", "the other model failed last", model="o5")
fair("401+side 200 401+side", "dead on both sides of a whole answer")
lost("200+side 200+tool 503*2 200+side", "interrupted provider_error:503", "healthy",
     "a title after the end is no continuation")  # fmt: skip
lost("200+side 200+tool 401", "interrupted auth:401", "healthy", "cut off after a title")
fair("200+tool@o5 503@o5*2 200+tool@o4", "another model took the work over", model="o5")
lost("503@o5*2 200+tool@o4*3", "main_model_failed provider_error:503", "healthy",
     "another model did all the work: the one under test was never reached",
     model="o5")  # fmt: skip

lost(
    "200+tool@o4 200+tool@o5 503@o5",
    "interrupted provider_error:503",
    "healthy",
    "what another model did before the end is no continuation",
    model="o5",
)

# The same model by another key or upstream is the same model reached.
fair("401#aaaa 200+tool#bbbb", "the second key worked")
fair("429#aaaa*3 200#bbbb*2", "keys in rotation")
fair("200+tool#aaaa 402#aaaa 200+tool#bbbb", "changed the key when the first was spent")
fair("503 200+tool%azure", "the same model by another upstream")
lost("200+tool#aaaa 402#aaaa 402#bbbb", "interrupted quota:402", "healthy", "both keys spent")
lost("401#aaaa 401#bbbb", "all_failed auth:401", "all_failed auth:401", "both keys dead")
fair("401@GPT-5 200@gpt-5", "names differ in case only")

# An SDK's retries of one request are one call.
lost("429 429^1 429^2", "all_failed rate_limit:429", "all_failed rate_limit:429",
     "one call in three attempts")  # fmt: skip
fair("429 429^1 200^2", "the SDK's own retry made it good")
fair("503 200^1 200+tool", "and the run went on")
lost("200+tool 503 503^1 503^2", "interrupted provider_error:503", "healthy", "one call, in vain")
lost("500 429^1 429^2 500 429^1 429^2", "all_failed rate_limit:429", "all_failed rate_limit:429",
     "statuses are counted by answer, not by call")  # fmt: skip
lost("429 left^1", "all_failed rate_limit:429", "all_failed rate_limit:429",
     "a retry that was abandoned does not unsay the failure")  # fmt: skip

lost(
    "200+tool 503 left^1",
    "interrupted provider_error:503",
    "healthy",
    "cut off, and the retry was not waited for",
)

# Nothing was seen at all.
lost("", "zero_signal suspected:zero_signal", QUIET,
     "an agent that rejects the model id by itself")  # fmt: skip
lost("", "zero_signal suspected:zero_signal", QUIET, "with counts of zero",
     total_tokens=0, tool_calls=0)  # fmt: skip
lost("", "zero_signal suspected:zero_signal", QUIET, "even when points were given",
     rewards={"reward": 1.0})  # fmt: skip
lost("", "zero_signal suspected:zero_signal", QUIET, "even when the verifier broke too",
     status="evaluation_failed", verifier_error="no report")  # fmt: skip
lost("", "zero_signal suspected:zero_signal", QUIET, "a runner without a prompt count",
     prompts_executed=None)  # fmt: skip
lost("200+probe", "zero_signal suspected:zero_signal", QUIET, "a probe is no call")
lost("200+probe*3 404+probe", "zero_signal suspected:zero_signal", QUIET, "nor are four")
lost("200+judge", "zero_signal suspected:zero_signal", QUIET, "the judge's call is not the agent's")
lost("200+embed*5", "zero_signal suspected:zero_signal", QUIET, "embeddings are no inference")
lost("", "zero_signal suspected:zero_signal", QUIET, "several prompts, not one call",
     prompts_executed=3)  # fmt: skip
lost("", "zero_signal suspected:zero_signal", QUIET, "it ran out of steps doing nothing",
     termination_reason="max_steps")  # fmt: skip
fair("", "tokens that the runner counted came from somewhere", total_tokens=900)
fair("", "so did tool calls", tool_calls=3)
fair("", "both", total_tokens=900, tool_calls=3)

# Not judged: nobody asked a model anything.
untold("", "not_judged", "not_judged", "setup failed before a prompt", prompts_executed=0,
       status="setup_failed")  # fmt: skip
untold("", "not_judged", "not_judged", "setup failed, nothing counted", prompts_executed=None,
       status="setup_failed")  # fmt: skip
untold("", "not_judged", "not_judged", "the export failed", prompts_executed=0,
       export_error="disk full")  # fmt: skip
untold("200+probe", "not_judged", "not_judged", "a probe at start-up", prompts_executed=0)
untold("401*2", "not_judged", "not_judged", "calls of a warm-up", prompts_executed=0)
untold("lost", "not_judged", "not_judged", "not even undecided", prompts_executed=0)
untold("", "not_judged", "healthy", "the runner says itself what went wrong",
       status="agent_error", error="exit code 1")  # fmt: skip
untold("", "not_judged", "healthy", "with the status alone", status="agent_error")
untold("", "not_judged", "healthy", "with the text alone", error="agent binary not found")
untold("", "not_judged", "healthy", "the sandbox died", status="environment_error")
untold("", "not_judged", "healthy", "the simulated user failed", status="user_error")
untold("", "not_judged", "healthy", "it hung without a call: its own timeout says so",
       status="task_timeout")  # fmt: skip
untold("", "not_judged", "healthy", "something unknown, but reported",
       status="unknown_execution_error")  # fmt: skip

# Undecided: evidence is missing.
untold("lost", "undecided", QUIET, "the proxy died with the only call")
untold("200+tool lost", "undecided", "healthy", "with the last one")
untold("lost 200+tool", "undecided", "healthy", "with the first one")
untold(
    "401*3 lost", "undecided", "all_failed auth:401", "what is missing might have been a success"
)
untold("", "undecided", QUIET, "calls were served but not recorded", gaps=2)
untold("200+tool 200", "undecided", "healthy", "one of them, in a run that looks well", gaps=1)
untold("429*3", "undecided", "all_failed rate_limit:429", "or in one that looks dead", gaps=1)
untold("", "undecided", QUIET, "calls that named no rollout ran: one may be its",
       unattributed_calls=3)  # fmt: skip
untold("200+embed 401+media", "undecided", QUIET, "no less where its vectors were named",
       unattributed_calls=1)  # fmt: skip
untold("lost+judge 200", "healthy", "healthy", "a lost call of the judge leaves no gap here")
untold("lost+probe 200", "healthy", "healthy", "nor does a lost probe")

# While it runs.
untold("", "undecided", "healthy", "registered, and nothing yet", running=True)
untold("pending", "undecided", "healthy", "its first call is in flight", running=True)
untold("200+tool", "healthy", "healthy", "well so far", running=True)
untold("401", "all_failed auth:401", "all_failed auth:401", "dead so far", running=True)
untold("401*2 pending", "all_failed auth:401", "all_failed auth:401", "dead, and trying",
       running=True)  # fmt: skip
untold("200+tool 503 pending", "healthy", "healthy", "a retry in flight may still recover",
       running=True)  # fmt: skip
untold("200+tool 503*2", "interrupted provider_error:503", "healthy", "cut off, if it ended now",
       running=True)  # fmt: skip
untold("pending", "undecided", QUIET, "reported before the call came to its end")
untold("200+tool pending", "healthy", "healthy", "a call in flight fails nothing")
untold("left", "undecided", "healthy", "an abandoned call", running=True)

# Empty answers: they succeeded, and carried nothing.
lost("200+empty", "empty_answers suspected:empty_answers", "healthy",
     "the agent ended with exit code 0 and no output")  # fmt: skip
lost(
    "200+empty*12", "empty_answers suspected:empty_answers", "healthy", "gemini-cli goes on asking"
)
lost("429 200+empty", "empty_answers suspected:empty_answers", "healthy", "throttled, then empty")
lost("200+empty left", "empty_answers suspected:empty_answers", "healthy", "empty, then abandoned")
lost("200+empty+nousage*2", "empty_answers suspected:empty_answers", QUIET,
     "read to the end, and neither text nor tool call nor a count in it")  # fmt: skip
lost("200+side 200+empty*3", "empty_answers suspected:empty_answers", "healthy",
     "a title came, the model under test stayed mute")  # fmt: skip
lost("200+empty*2", "empty_answers suspected:empty_answers", "healthy",
     "whatever the runner says", status="agent_error", error="no output")  # fmt: skip
fair("200+empty 200", "one empty answer among whole ones")
fair("200 200+empty", "an empty last turn is an end")
fair("200+tool 200+empty*2", "so are two")
lost("200+thought", "empty_answers suspected:empty_answers", "healthy",
     "hidden reasoning was paid for, and not a word of it was an answer")  # fmt: skip
fair("200+empty+tool", "a tool call is output")

# Answers that are no failure.
fair("200", "a chat-only answer is model behaviour")
fair("200+tool 200", "a tool call and an answer")
fair("200+tool*100", "a hundred steps")
fair("200+refusal", "a refusal is an answer")
fair("200+refusal*3", "however often")
fair("200+tool 200+refusal", "at the end too")
fair("200+length", "cut short by its own limit of tokens")
fair("200+tool 200+length", "at the end too")
fair("200+nousage", "visible output without a usage block is activity", seed=QUIET)
fair("200+tool+nousage 200+nousage", "tool calls clear it for the seed too")
fair("200+unread*3", "an answer nobody could read is not an empty one", seed=QUIET)
fair("200", "a failed task", rewards={"reward": 0.0})
fair("200", "a passed one", rewards={"reward": 1.0})
fair("200+tool*9", "out of steps", termination_reason="max_steps")
fair("200+tool", "the user was satisfied", termination_reason="user_stop")
fair("200+tool*9", "out of time", status="task_timeout")
fair("200+tool", "the agent crashed by itself", status="agent_error", error="Traceback")
fair("200+tool", "the verifier crashed", status="evaluation_failed", verifier_error="exit 2")

# What the agent left by itself is nobody's failure.
fair("200+tool left", "killed by its runner while it waited")
fair("left 200", "cancelled and asked anew")

# What the agent left while the proxy had it wait is the proxy's.
untold("200+tool held", "undecided", "healthy", "it gave up what it might have been answered")
untold("held", "undecided", QUIET, "it waited for its turn, and for nothing else")
fair("200+tool held 200", "it asked again, and was answered")
fair("held 200+tool 200", "the same at the beginning")

fair("left+text", "left in the middle of an answer")
fair("200+tool left+text", "the last answer read as far as it was needed")
lost("left", "never_answered suspected:never_answered", QUIET,
     "left before a byte came, and never asked again: nothing is proven")  # fmt: skip
fair("left 200+tool left", "cancelled twice")
dead("401 left", "auth:401", "a dead key, and one call not waited for")
dead("left 429*2", "rate_limit:429", "left once, throttled for the rest")

# Other roles and kinds never count.
fair("200+tool 401+judge*4", "the judge's dead key is not laid on the agent")
fair("401+judge 200", "in any order")
fair("404+probe 200+tool", "a model list that is not there")
fair("200+tool 429+embed*9", "throttled embeddings")
fair("200 500+probe*3", "token counting that fails")
dead("401*2 200+judge", "auth:401", "nor does the judge's success save it")
dead("401*2 200+probe*2", "auth:401", "nor does a probe's")
dead("429*2 200+embed", "rate_limit:429", "nor does an embedding's")

# An agent on its own subscription never passes the proxy.
fair("", "zero activity is what a healthy one looks like", usage_channel="none")
fair("", "with a failed task", usage_channel="none", rewards={"reward": 0.0})
fair("200+probe", "a probe that strayed in", usage_channel="none")
fair("200+empty", "an empty answer proves nothing there", usage_channel="none")
lost("401*3", "all_failed auth:401", "healthy",
     "calls that did pass are proof all the same; the published rule looks away",
     usage_channel="none")  # fmt: skip

# What the runner counted clears a rollout for the seed, never for evidence.
lost("401*3", "all_failed auth:401", "healthy", "a prompt counted locally is no answer",
     total_tokens=5000)  # fmt: skip
lost("401*3", "all_failed auth:401", "healthy", "nor is a tool the agent ran on its own",
     tool_calls=2)  # fmt: skip
lost("503*3", "all_failed provider_error:503", "healthy", "the runner's error silences the seed",
     status="agent_error", error="exit code 1")  # fmt: skip
lost("429*9", "all_failed rate_limit:429", "healthy", "so does its timeout",
     status="task_timeout")  # fmt: skip
lost("401", "all_failed auth:401", "healthy", "so does its status alone",
     status="unknown_execution_error")  # fmt: skip
lost("401*2", "all_failed auth:401", "all_failed auth:401", "a verifier's failure silences nobody",
     status="evaluation_failed", verifier_error="exit 2")  # fmt: skip
fair("200+tool", "counted as zero by the runner", seed=QUIET, total_tokens=0, tool_calls=0)
fair("200+tool", "counted by the runner", total_tokens=1200, tool_calls=4)

# An untrusted agent's own failures: its zero counts, and no model answered.
own("401+override*3", "all_failed auth:401", "a key of its own where the operator has one")
own("400+twice*2", "all_failed rejected_request:400", "two models in one body")
own("404@made-up*2", "all_failed model_not_found:404", "a model that only it names")
own("400+content_filter", "all_failed rejected_request:400", "it wrote what was filtered")
own("200+side 401+override*2", "healthy", "a title is no answer")
own("", QUIET, "it made no call")
own("left*2", QUIET, "it waited for none")
