"""The truth table's long half: how agents really behave, and what a careful evaluator says of it.

Every row was judged before the rules were asked. Beside the truth a row states whether its score
may count: a fair one counts, a lost one never, and what nobody can tell stays out.
"""

from __future__ import annotations

from typing import Any

from tests.classifier.truth import Row

SEQUENCES: list[Row] = []
_EMPTY = "empty_answers suspected:empty_answers"
_NEVER = "never_answered suspected:never_answered"
_REJECTED = "unexplained_rejections suspected:unexplained_rejections"
_UNREAD = "unread_answers suspected:unread_answers"
_QUIET = "zero_signal suspected:zero_signal"


def _add(
    calls: str, lost: bool | None, evidence: str, scoreable: str, why: str, said: dict[str, Any]
) -> None:
    told: dict[str, Any] = {"evidence": evidence, "scoreable": scoreable, "why": why, "said": said}
    SEQUENCES.append(Row(calls=calls, lost=lost, seed=None, **told))


def lost(calls: str, evidence: str, why: str, **said: Any) -> None:
    _add(calls, True, evidence, "no", why, said)


def fair(calls: str, why: str, **said: Any) -> None:
    _add(calls, False, "healthy", "yes", why, said)


def untold(calls: str, evidence: str, why: str, **said: Any) -> None:
    """Nobody knows, or nobody asked, and the verdict's health says so."""
    _add(calls, None, evidence, "unknown" if evidence == "undecided" else "no", why, said)


def unknown(calls: str, why: str, **said: Any) -> None:
    """No failure is shown, and no score can be vouched for."""
    _add(calls, None, "healthy", "unknown", why, said)


# Retries by the agent, its SDK, its framework.
lost("200+tool 503 503+again 503+again", "interrupted provider_error:503",
     "the framework sent the same request three times")  # fmt: skip
fair("200+tool 503 503+again 200+tool+again 200", "the third try of the same request came through")
fair("200+tool 429~2 200+tool 429~4 200", "throttled, waited as told, went on")
lost("200+tool*6 429~3600*3", "interrupted rate_limit:429", "an hour is longer than it would wait")
fair("408 408+again 200+tool+again 200", "two timeouts of the first request")
fair("200+tool 400+malformed*3 200", "it mended its own request at the fourth try")
fair("200+tool 503 503^1 200^2 400+context_length", "it recovered, then overran its context")
lost("200+tool 503 left*3", "interrupted provider_error:503", "its retries were not waited for")
fair("200+tool left*3 200", "three of its own timeouts, then an answer")
fair("200+tool left*4", "after work done it gave up waiting by itself: no failure is shown")
lost("503*3 429*2 400+malformed", "all_failed provider_error:503", "nothing ever came")
lost("429+quota 400+malformed*4", "all_failed rejected_request:400", "nothing was ever accepted")
fair("200+tool 503 200+toolless", "the forced last answer needs no tools")
fair("200+tool 503 404+wrong_endpoint 200", "a detour over a route that is not there")
lost("200+tool*50 401 403 401", "interrupted auth:401", "a key withdrawn after fifty steps")
lost("200+tool 500*3 429*2", "interrupted provider_error:500", "an outage, then a crowd")
lost("200+side*3 left+text 503*2", "interrupted provider_error:503", "half a word, then nothing")
lost("200+unread 503*2", "interrupted provider_error:503", "an answer we could not read is one")
fair("302 200+tool 200", "a redirect that the client followed")
lost("302+empty 401*2", "all_failed auth:401", "a redirect is no answer")

# The strongest cause of the last calls, not the last one.
lost("200+tool 429+quota*2 400+malformed", "interrupted quota:429",
     "the fallback request was malformed, but the money was gone before")  # fmt: skip
lost("200+tool 429+quota 429", "interrupted quota:429", "an empty account is throttled as well")
lost("200+tool 429+quota 503*5", "interrupted quota:429", "and no outage refills it")
lost("200+tool 401*2 404+wrong_endpoint", "interrupted auth:401",
     "with a dead key it tried another route")  # fmt: skip
lost("200+tool 529*5 400+unsupported", "interrupted provider_error:529",
     "it dropped to another shape because of the overload")  # fmt: skip
lost("200+tool 404 400+malformed 400+unsupported", "interrupted model_not_found:404",
     "its model was withdrawn; what it then tried proves nothing")  # fmt: skip
lost("200+tool 404 404+wrong_endpoint*5", "interrupted model_not_found:404", "nor do five routes")
lost("200+tool 503 503^1 400+malformed", "interrupted provider_error:503",
     "one call in vain, and a mangled one")  # fmt: skip
lost("200+tool net 400+malformed", "interrupted provider_error:network", "the line, then a mistake")
lost("200+tool 200+truncated 400+malformed", "interrupted provider_error:200",
     "a cut stream whose half message was sent back and refused")  # fmt: skip
lost("200+tool 200+text+truncated*2 404+wrong_endpoint", "interrupted provider_error:200",
     "two cut streams, then the route without streaming")  # fmt: skip
lost("200 529*3 left 400+malformed", "interrupted provider_error:529", "overload at heart")
lost("200+tool 403+region 400+malformed", "interrupted auth:403", "the region was closed first")
lost("200+tool 429 429^1 429^2 400+malformed", "interrupted rate_limit:429",
     "the SDK gave up, then the framework sent a stump")  # fmt: skip
lost("200+tool 200+quota 400+malformed", "interrupted quota:200", "the money went in mid-stream")
lost("200+tool 400*2 429+quota", "interrupted quota:429", "whatever it was before, now it is money")
lost("200+tool 429+quota 400*3", "interrupted quota:429",
     "rejections that nobody explains do not outweigh an empty account")  # fmt: skip
fair("200+tool 400+malformed 400+context_length", "two mistakes of its own, both explained")
fair("200+tool 200+refusal 400+content_filter", "refused, then filtered: its own words both times")
fair("200+unread*2 400+malformed", "answers that we could not read, then its own mistake")

# Sub-agents and other calls at the same time.
fair("200+tool[0-2] 503[2-4] 200+tool[2-5] 200[5-7]", "a sub-agent died, the work was finished")
lost("200+tool[0-2] 503[3-4] 200+small[2-9]", "interrupted provider_error:503",
     "a sub-agent that was asked before does not stand in for the failed step")  # fmt: skip
fair("200+tool[0-2] 503[2-10] 200[3-5]", "it asked anew while the first request hung")
lost("200+tool[0-2] 503[2-10] 200+toolless+small[3-5]", "interrupted provider_error:503",
     "a title came while the step hung and failed")  # fmt: skip
lost("200+tool[0-2] 503[2-10] 200+small[3-5]", "interrupted provider_error:503",
     "a sub-agent with a short request is another conversation")  # fmt: skip
fair("200+tool[0-2] 429[2-3] 429[2-3] 200[2-6] 200[6-8]", "two of three sub-agents throttled")
fair("200[0-5] 429+again[1-2] 200+again[0-4]", "best of three samples, of which two came")
lost("200+tool[0-2] 402[2-3] 402[2-3] 402[2-3]", "interrupted quota:402", "three at once, no money")
lost("200+tool[0-9] 402[1-2] 402[9-10]", "interrupted quota:402", "and no money after the last one")
fair("200+tool[0-1] 503[1-30] 200+tool[2-4] 200+tool[4-6] 200[6-8]",
     "a hung request that fails long after the run went on without it")  # fmt: skip
fair("200+tool[0-1] 503[1-30] 200+large[2-8]", "the grown conversation was answered meanwhile")
lost("200+tool[0-1] 503+large[1-30] 200[2-8]", "interrupted provider_error:503",
     "the long conversation failed, a shorter one was answered")  # fmt: skip
fair("200+tool[0-1] stalled[1-70] 200[65-72]", "asked anew before it hung up on the silent one")
lost("401[0-1] 401[0-1] 401[0-1]", "all_failed auth:401", "three sub-agents with one dead key")
fair("left[0-30] 200+tool[5-9] 200[9-10]", "a speculative call, dropped in the end")
lost("200+tool[0-2] 429[2-3] 200+judge[4-5]", "interrupted rate_limit:429",
     "the judge spoke after the agent was cut off")  # fmt: skip
lost("200+tool@big[0-2] 503@big[2-9] 200+tool+small@mini[3-5]", "interrupted provider_error:503",
     "the small model was at its own work")  # fmt: skip
fair("200+tool@big*3 503@big 200+tool@mini", "the small model took the work over afterwards")
lost("200+tool[0-2] 429[2-20] 429[3-20] 200+toolless[4-6]", "interrupted rate_limit:429",
     "both steps throttled, and a title in between")  # fmt: skip
fair("200+tool[0-4] 200+tool[0-4] 503[0-4] 200[4-9]", "one of three, and then the summing up")

# Fallbacks from one model to another.
fair("503@a*2 200+tool@b*3 200@b", "nobody said which model: the second one did the work")
lost("503@a*2 200+tool@b*3 200@b", "main_model_failed provider_error:503",
     "the first one was to be measured", model="a")  # fmt: skip
lost("404@a 200+side 200+side", "main_model_failed model_not_found:404", "titles are no fallback")
lost("200+tool@a 402@a*2 401@b*2", "interrupted quota:402", "the fallback was dead as well")
fair("200+tool@a 402@a*2 200+tool@b 200@b", "the fallback finished the work")
lost("402@a 200+tool@b 402@b", "interrupted quota:402", "both accounts ran dry, one later",
     model="b")  # fmt: skip
fair("401@a*5 200+tool@b*2", "what fails beside the model under test decides nothing", model="b")
lost("401@a*5 left@b", _NEVER, "nor does it explain why that one was never answered", model="b")
lost("401@a*5 503@b", "all_failed provider_error:503", "nor is it what the failure is named after",
     model="b")  # fmt: skip
fair("503%openai*2 200+tool%azure 200%azure", "the same model at another upstream")
lost("503%openai*2 200+tool%azure", "main_model_failed provider_error:503",
     "the upstream under test never answered", upstream="openai")  # fmt: skip
fair("200+tool%openai 200%openai 503%azure*3", "a failure at another upstream decides nothing",
     upstream="openai")  # fmt: skip
lost("200+tool%openai 503%openai*2", "interrupted provider_error:503",
     "cut off at the upstream under test", upstream="openai")  # fmt: skip
lost("200+tool@a 503@a*3 200+toolless@b", "interrupted provider_error:503",
     "another model wrote the apology, without tools")  # fmt: skip

# Fallbacks that the runner declared.
fair("503@a*2 200+tool@b*3 200@b", "a declared fallback counts as reached",
     model="a", fallbacks=("b",))  # fmt: skip
fair("200+tool@b 200@b", "even where the first one was never asked", model="a", fallbacks=("b",))
lost("503@a 401@b*2 200+tool@c", "main_model_failed auth:401", "another one was not declared",
     model="a", fallbacks=("b",))  # fmt: skip
lost("200+tool@a 402@a 529@b*3", "interrupted quota:402", "the fallback was down as well",
     model="a", fallbacks=("b",))  # fmt: skip
lost("404@a 429@b*2", "all_failed rate_limit:429", "neither ever answered",
     model="a", fallbacks=("b", "c"))  # fmt: skip

# Keys in rotation.
fair("429#k1 200+tool#k2 429#k2 200+tool#k3", "each key in turn")
lost("200+tool#k1 402#k1 402#k2 402#k3", "interrupted quota:402", "every key spent")
lost("401#k1 401#k2 403#k3", "all_failed auth:401", "every key dead")
fair("200+tool#k1 401#k2 200#k1", "a dead second key, back to the first")
lost("200+tool#k1 429+quota#k1*2 401#k2", "interrupted quota:429", "a spent key and a dead one")
fair("200+tool#k1 402#k1 200+tool#k2 200#k2", "the second key carried it to the end")

# Long silences of the agent's own.
fair("200+tool[0-2] 200+tool[900-903] 200[5000-5002]", "it compiled for an hour between two calls")
lost("200+tool[0-2] 503[3600-3601] 503[3605-3606]", "interrupted provider_error:503",
     "back from an hour of tests, and nobody there")  # fmt: skip
fair("200+tool[0-2] 503[3600-3601] 200[7200-7202]", "it tried again an hour later")
fair("200+tool[0-2]", "its tool ran into the time limit", status="task_timeout")
fair("200+tool[0-2] left[100-101]", "stopped a second after it had asked", status="task_timeout")
lost("stalled[0-400]", "all_failed provider_error:network", "one silent call used up the time",
     status="task_timeout")  # fmt: skip

# Own timeouts, shorter than silence proves anything.
lost("left[0-30]", _NEVER, "it waited half a minute and gave up for good")
lost("left*4", _NEVER, "four times")
lost("200+side left*3", _NEVER, "the title came, the model under test never spoke")
fair("left*3 200+tool 200", "the fourth try was fast enough")
lost("left*2 503", "all_failed provider_error:503", "the one it waited for failed")
lost("200+side left*2 503", "main_model_failed provider_error:503", "a title before it")
lost("left[0-50]", _NEVER, "its runner stopped it while it waited", status="task_timeout")
lost("left*3", _NEVER, "points without a word of the model", rewards={"reward": 1.0})
fair("left*2", "it has its own subscription beside us", usage_channel="none")
lost("left@o5*2 200+tool@o4", _NEVER, "another model was no substitute", model="o5")
fair("left@o5*2 200+tool@o4*3", "nobody said which: the other did the work")
fair("left+text*2 left", "it had read what it wanted")
untold("left pending", "undecided", "the second call may still be answered")

# Compaction of a conversation that grew too long.
fair("200+tool*9 400+context_length 200+toolless+large 200+tool 200", "too long, summed up, done")
fair("200+tool*9 400+context_length*2", "it never learned to sum up")
lost("200+tool*9 400+context_length 503+toolless*3", "interrupted provider_error:503",
     "the call that should have summed up failed")  # fmt: skip
fair("200+tool*9 503+large 200+small", "after an outage it went on with a shorter conversation")
lost("200+tool*9 429+large*3 400+context_length", "interrupted rate_limit:429",
     "throttled for its size, before it grew too long")  # fmt: skip
fair("200+tool*5 413+too_large 200+tool 200", "it left the picture out")

# Background answers, fetched when they are there.
fair("200+queued 200+polled*3 200+fetched", "asked for until it was there")
fair("200+tool 200+queued 200+polled 200+fetched", "the last step in the background")
lost("200+queued 200+polled 503+fetched+provider_error", "all_failed provider_error:503",
     "it could never be fetched")  # fmt: skip
lost("200+queued 200+polled*2 200+fetched+provider_error", "all_failed provider_error:200",
     "it ended as failed")  # fmt: skip
lost("200+tool 200+queued 200+fetched+quota", "interrupted quota:200", "the money ran out")
lost("200+queued 200+polled*9", _NEVER, "the agent stopped asking before there was anything")
fair("200+queued 503+polled+provider_error 200+fetched", "one poll failed, the answer came")
untold("200+queued", "undecided", "in progress", running=True)

# A recap or a title after the work is done.
fair("200+tool 200 503+toolless", "the recap failed")
fair("200+tool 200 429+toolless*3", "three times")
fair("200+tool 200 400+toolless*2", "rejected, and nobody knows why: it was a recap")
fair("200+tool 200 402+toolless", "the money ran out for the recap")
lost("200+tool*2 503+toolless*2", "interrupted provider_error:503",
     "its last answer had asked for a tool: that was no recap")  # fmt: skip
lost("200+tool 200 503*2", "interrupted provider_error:503", "the next turn failed, tools and all")
lost("200+toolless*3 503+toolless", "interrupted provider_error:503",
     "an agent that works without tools is cut off like any other")  # fmt: skip
fair("503+toolless[0-1] 200+tool[0-3] 200[3-5]", "the title failed at the start")
fair("200[0-5] 503+toolless[1-8]", "the title failed after the only answer")
fair("200+tool 200 200+toolless 503+toolless", "the title came, the recap did not")
lost("200+tool 200 503+toolless 503", "interrupted provider_error:503",
     "a recap failed, and so did the next turn")  # fmt: skip

# Rejections that nobody explains.
unknown("200+tool*2 400", "the account's fault or the agent's")
unknown("200+tool 409", "with another number")
unknown("200+tool 400 422", "two different ones")
untold("200+tool 400*2", _REJECTED, "the same one twice, and then it gave up")
untold("200+tool*3 422*3", _REJECTED, "three times")
untold("200+tool 400 400+again", _REJECTED, "the same request, the same answer")
untold("200+side 200+tool 400*2 200+side", _REJECTED, "a title behind it changes nothing")
fair("200+tool 400 200", "whatever it was, it passed")
fair("200+tool 400*5 200+tool 200", "even five times")
fair("200+tool 400+side*3 200", "the small model refuses titles")
fair("200+tool 400+unsupported*2", "the parameter is named: its own doing")
fair("200+tool 404+wrong_endpoint*3", "the route is not there: its own doing")
fair("200+tool 400+content_filter*2", "its own words were filtered")
fair("200+tool 413+too_large*2", "its own size")
fair("200+tool@o5 400@o5*2 200+tool@o4", "another model took the work over")

# Answers with nothing in them.
lost("200+thought*3", _EMPTY, "Gemini thought, said STOP and nothing else")
lost("200+reasoned*3", _EMPTY, "its thoughts could be read, an answer was not among them")
lost("200+side 200+thought*2", _EMPTY, "a title came, the model under test only thought")
lost("429*2 200+thought", _EMPTY, "throttled, then mute")
lost("200+thought left", _EMPTY, "mute, then abandoned")
lost("200+thought 503*2", "interrupted provider_error:503", "mute, then broken: that is proven")
fair("200+thought 200", "it spoke at the second try")
fair("200+tool 200+thought", "an empty last turn is an end")
fair("200+thought+length", "its thoughts used up the limit: the model was there")
fair("200+empty+length", "the limit was too small for a word")
fair("200+refusal 200+empty", "it refused first")

# The registered model, and what the wire calls it.
fair("200+tool@o4 200@o4", "the registered model was never asked for", model="o5")
lost("401@o4*3", "all_failed auth:401", "nor here, and nothing was answered", model="o5")
lost("200+tool@o4 503@o4*2", "interrupted provider_error:503", "nor here, and it was cut off",
     model="o5")  # fmt: skip
fair("200+tool@us.anthropic.claude-sonnet-4-20250514-v1:0", "Bedrock's name of it",
     model="claude-sonnet-4")  # fmt: skip
fair("200+tool@claude-sonnet-4:thinking", "OpenRouter's", model="anthropic/claude-sonnet-4")
fair("200+tool@house>gpt-5-2025-08-07 200@house>gpt-5-2025-08-07", "Azure's deployment",
     model="gpt-5")  # fmt: skip
lost("200+side 404@models/gemini-2.5-pro*2", "main_model_failed model_not_found:404",
     "Google's path before it", model="google/Gemini-2.5-Pro")  # fmt: skip
lost("200@o4*3 503@eu.anthropic.claude-opus-4-20250514-v1:0*2",
     "main_model_failed provider_error:503", "at Bedrock", model="claude-opus-4")  # fmt: skip
lost("200+tool@qwen3:4b*3 503@qwen3:32b*2", "main_model_failed provider_error:503",
     "sizes are different models", model="qwen3:32b")  # fmt: skip
fair("503@qwen3:4b*3 200+tool@qwen3:32b", "in the other order", model="qwen3:32b")
lost("200@o4 200+tool@house>gpt-5 401@house*2", "interrupted auth:401",
     "a deployment is bound by the name that answered", model="gpt-5")  # fmt: skip

# No call that counts.
untold("", "not_judged", "the agent's binary was missing", status="agent_error", error="exit 127")
untold("", "not_judged", "said in words alone", error="agent not found")
untold("", "not_judged", "the sandbox died first", status="environment_error", error="OOM")
untold("200+probe*2", "not_judged", "it hung before its first call", status="task_timeout")
untold("200+probe", "not_judged", "it looked at the list of models and crashed",
       status="agent_error")  # fmt: skip
untold("", "undecided", "a call was served and not recorded", status="agent_error", gaps=1)
untold("", "not_judged", "the agent's binary was missing, whoever else called",
       status="agent_error", error="exit 127", unattributed_calls=9)  # fmt: skip
fair("", "the runner counted what passed us by", status="agent_error", total_tokens=900)
fair("", "which no call of others makes doubtful", total_tokens=900, unattributed_calls=9)
fair("200+tool 200", "nor a run whose calls are known", unattributed_calls=9)
lost("401*3", "all_failed auth:401", "nor one that is known to have failed",
     unattributed_calls=9)  # fmt: skip
fair("", "its own subscription is not asked about", usage_channel="none", unattributed_calls=9)
fair("", "it has its own subscription", status="agent_error", usage_channel="none")
fair("200+media", "a picture was drawn")
fair("200+media*3", "speech was read three times", status="agent_error")
lost("401+media*3", _QUIET, "no picture was ever drawn")
lost("401+embed*3", _QUIET, "no vector, and no word either")
lost("200+other*2", _QUIET, "a page of the provider's is no answer")
lost("200+media 401*3", "all_failed auth:401", "a picture, and never a word")
fair("401+media 200+tool 200", "no picture, but words")
untold("200+embed*3", "undecided", "it crashed on its own before it asked a model",
       status="agent_error")  # fmt: skip
fair("200+tool 200+judge 503+embed", "the judge and the vectors are other people's business")
untold("200+tool 401+judge 503+embed", "healthy", "the agent ran whole, and nobody could score it")
fair("429+side*9 200+tool 200 429+side*9", "titles throttled before and after")

# Answers that were looked at: read, empty, unread or unseen.
fair("200+read", "an answer was read")
fair("200+tool+read*9 200+read", "so were ten")
lost("200+garbled", _UNREAD, "an empty object with a status of success is no answer")
lost("200+garbled*40", _UNREAD, "nor are forty")
lost("200+garbled left*2", _UNREAD, "and then it gave up")
lost("200+read+side 200+garbled*3", _UNREAD, "a title was read, the model under test never was")
lost("200+garbled*2", _UNREAD, "whatever the runner counted", total_tokens=900)
lost("200+garbled*3", _UNREAD, "nor does an unread retry make a retry good", status="agent_error")
lost("401*2 200+garbled", "all_failed auth:401", "an unread answer makes no failure good")
lost("200+garbled 401*2", "all_failed auth:401", "in any order")
lost("200+tool+read 503 200+garbled", "interrupted provider_error:503", "nor at the end")
lost("200+tool+read 503 200+garbled^1", "interrupted provider_error:503", "nor as an SDK's retry")
lost("200+side+read 404@o3*2 200+garbled@o3", "main_model_failed model_not_found:404",
     "nor on the main lane alone", model="o3")  # fmt: skip
fair("200+tool+read 503 200+garbled 200+read", "a read one after it does")
fair("200+garbled 200+tool+read", "one that could not be read on the way")
fair("200+tool+read 200+garbled*2 200+read", "two")
fair("200+tool+read 200+garbled", "one at the end: the work was under way")
unknown("200+tool+read 200+garbled*2", "two at the end: cut off or done, nobody knows")
unknown("200+tool+read 200+garbled*9 left", "and then it hung up")
unknown("200+tool+read 200+garbled 400+malformed 200+garbled", "a rejection in between")
fair("200+tool+read@o4 200+garbled@o4*2 200+tool+read@o5", "another model went on")
fair("200+tool+read 200+read 200+garbled+toolless*2", "recaps after a final answer")
fair("200+garbled*2", "its own subscription", usage_channel="none")
lost("200+blank*2", _EMPTY, "read, and nothing in it")
lost("200+blank 200+garbled", _EMPTY, "nothing that could be read had anything in it")
fair("200+tool+read 200+blank", "an empty last turn is an end")
untold("200+unseen", "undecided", "nobody could look at the only answer")
untold("200+unseen*3 401", "undecided", "nor at three, whatever failed afterwards")
untold("200+unseen 200+garbled", "undecided", "what cannot be looked at may have been one")
fair("200+unseen 200+read", "another one could be read")
fair("200+tool+read 503 200+unseen", "what came last may well be an answer")
fair("200+unseen", "the runner counted its tokens", total_tokens=900)
fair("200+unseen*2", "its own subscription again", usage_channel="none")

# Calls at which no tokens are read: only output of a model carries a zero.
fair("200+media+read", "a picture was read in the answer")
lost("200+media+garbled*3", _QUIET, "a file was sent, a list was read")
lost("200+media+garbled 200+media+blank", _QUIET, "a batch that was begun and never ended")
untold("200+media+unseen", "undecided", "a picture or a page, nobody could look")
untold("200+media+garbled*3", "undecided", "an upload, and an error of its own",
       status="agent_error")  # fmt: skip
lost("200+media+garbled*2 200+media+quota", "all_failed quota:200", "a batch that failed")
lost("200+media+read 200+media+quota*2", "interrupted quota:200",
     "a batch that was done, and one that failed")  # fmt: skip
fair("200+media+read 503+embed", "a picture, and no vector")
untold("302+empty@o5 200+media+read@o4", "undecided", "another model's picture", model="o5")
fair("302+empty@o5 200+media+read@o5", "its own picture", model="o5")

# 404s that say nothing but their status, and states that the provider lost.
unknown("200+tool+read 404+lost_state", "the provider no longer knew the conversation")
unknown("200+tool+read 400+lost_state*4", "however often it was asked")
unknown("200+tool+read 400+lost_state 400+malformed", "it tried something else then")
lost("400+lost_state*2", "all_failed rejected_request:400", "nothing was ever answered")
lost("200+tool+read 400+lost_state 503", "interrupted provider_error:503", "an outage, too")
fair("200+tool+read 400+lost_state 200+read", "it sent the whole conversation instead")

# Inference by its shape, at a path of no dialect.
fair("200+shaped", "what was read there was an answer")
lost("200+shaped 503+other", "interrupted provider_error:503", "and then it was down")
fair("200+shaped 503+other 200+shaped", "and came back")
fair("200+shaped 503+other@o4", "another model on that server is not this one")
fair("200+shaped 503+other%langfuse", "telemetry goes elsewhere")
fair("200+tool+read 503+other", "what was never answered by its shape is no inference call")
lost("200+tool+read 401+other*2", "interrupted auth:401", "but for what is registered",
     model="gpt-5", upstream="openai")  # fmt: skip
lost("401+other*3", "all_failed auth:401", "from the first call on",
     model="gpt-5", upstream="openai")  # fmt: skip
lost("401+other*3", _QUIET, "which nobody can know where nothing is registered")
