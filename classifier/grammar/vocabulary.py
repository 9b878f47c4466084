"""The vocabulary of errors: subjects, what became of them (predicates), and periods.

Words were gathered from the pages named in each ``source``; alternatives are separated by ``|``.
Chinese words stand beside English ones: Zhipu, Qwen, Moonshot, MiniMax, DeepSeek, SiliconFlow, Ark
and one-api answer in either language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

# --- entries ---


_NOBODY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Words that mean the same to the grammar.

    ``words`` are alternatives separated by ``|``; a trailing ``*`` matches any ending. ``only``
    holds what a single provider says, by provider, so that a score can leave it out. ``negated``
    marks a predicate that reports a failure only under a negation: "found" does, "exceeded"
    does not. ``source`` is where the words are documented.
    """

    id: str
    words: str
    source: str
    only: Mapping[str, str] = field(default_factory=lambda: _NOBODY)
    negated: bool = False

    def phrases(self) -> Iterator[tuple[str, ...]]:
        """Yield each alternative as a tuple of words."""
        for alternative in "|".join((self.words, *self.only.values())).split("|"):
            if words := tuple(alternative.split()):
                yield words


# --- words ---


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MONEY: Final = (
    "docs.together.ai/docs/error-codes; platform.claude.com/docs/en/api/errors;"
    " api-docs.deepseek.com/quick_start/error_codes; docs.bigmodel.cn/cn/faq/api-code"
)
_PLANS: Final = (
    "huggingface.co/docs/inference-providers/pricing; developers.openai.com/codex/pricing;"
    " docs.bigmodel.cn/cn/faq/api-code; docs.github.com/copilot/concepts/billing"
)
_LIMITS: Final = (
    "developers.openai.com/api/docs/guides/rate-limits; console.groq.com/docs/rate-limits;"
    " ai.google.dev/gemini-api/docs/rate-limits; docs.bigmodel.cn/cn/faq/api-code"
)
_KEYS: Final = (
    "developers.openai.com/api/docs/guides/error-codes; googleapis:google/api/error_reason.proto;"
    " cloud.tencent.com/document/api/1721/101527"
)
_MODELS: Final = (
    "developers.openai.com/api/docs/guides/error-codes; volcengine.com/docs/82379/1299023;"
    " docs.bigmodel.cn/cn/faq/api-code; docs.fireworks.ai/guides/inference-error-codes"
)
_REQUESTS: Final = (
    "platform.claude.com/docs/en/api/errors; docs.pydantic.dev/latest/errors/validation_errors;"
    " vllm-project/vllm:vllm/entrypoints/openai; cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7"
)
_CONTENT: Final = (
    "learn.microsoft.com/azure/ai-services/openai/concepts/content-filter;"
    " volcengine.com/docs/82379/1299023; docs.bigmodel.cn/cn/faq/api-code"
)
_ENGINES: Final = (
    "vllm-project/vllm:vllm/engine/async_llm_engine.py;"
    " vllm-project/vllm#36666 (shutdown); vllm-project/vllm#28037 (pause);"
    " sgl-project/sglang:python/sglang/srt/managers/tokenizer_manager.py"
)
_SERVERS: Final = (
    "RFC 9110 §15.6; vllm-project/vllm:vllm/v1/engine/exceptions.py; ollama/ollama:server/sched.go;"
    " api-docs.deepseek.com/quick_start/error_codes"
)

SUBJECTS: Final = (
    Term(
        id="balance",
        words="balance|credit balance|account balance|paid balance|wallet|fund|funds|money"
        "|余额|账户余额|账号余额|资金",
        source=_MONEY,
    ),
    Term(
        id="credits",
        words="credit|credits|prepaid credits|prepayment credits|included credits|积分|赠金",
        only={"cloudflare": "neurons"},
        source=_MONEY,
    ),
    Term(
        id="billing",
        words="billing|billing account|billing limit|账单|计费|扣费",
        source=_MONEY,
    ),
    Term(
        id="payment",
        words="payment|payments|payment method|payment instrument|payment information|invoice"
        "|invoices|past invoices|pay|支付|付款",
        source=_MONEY,
    ),
    Term(
        id="spend",
        words="spend|spend limit|spend cap|spending|spending limit|spending limits|spending cap"
        "|budget|max budget|budget limit|hard limit|billing hard limit|cost limit"
        "|api usage limit|api usage limits"
        "|预算|消费限额",
        source=_MONEY,
    ),
    Term(id="arrears", words="arrears|arrearage|overdue payment|欠费|欠款", source=_MONEY),
    Term(
        id="quota",
        words="quota|quotas|user quota|allocated quota|额度|配额|限额|剩余额度",
        source=_LIMITS,
    ),
    Term(
        id="allotment",
        words="allowance|allocation|allotment|free allocated quota|entitlement|free tier"
        "|free quota|free limit|trial limit"
        "|token package|your package|data package|free usage|free allocation|free credits"
        "|free trial|trial|resource pack|resource package"
        "|premium request|premium requests|premium usage|included usage|extra usage"
        "|免费额度|资源包|套餐余量|调用次数限额|流量包",
        source=_PLANS,
    ),
    Term(
        id="usage",
        words="usage|usage limit|usage limits|usage cap|session limit|plan limit|credit limit"
        "|key limit|weekly limit|daily limit|monthly limit|使用上限|用量上限|用量",
        only={"ark": "set limit|inference limit"},
        source=_PLANS,
    ),
    Term(
        id="plan",
        words="plan|paid plan|subscription|membership|token plan|coding plan|套餐|订阅|会员",
        source=_PLANS,
    ),
    Term(
        id="account",
        words="account|accounts|organization|organisation|org|workspace|project|user account"
        "|账户|帐户|账号|用户|组织|帐号",
        source=_KEYS,
    ),
    Term(id="member", words="user|users|team|tenant|seat", source=_KEYS),
    Term(
        id="key",
        words="api key|api keys|apikey|x api key|jwt|id token|licence|license|app id|appid|app key"
        "|app secret|access key|subscription key|virtual key"
        "|secret id|secret key|api token|access token|auth token|bearer token|oauth token"
        "|authentication token|security token|credential|credentials|auth credentials"
        "|authorization header|密钥|令牌|凭证|秘钥|金钥",
        source=_KEYS,
    ),
    Term(
        id="bare_key",
        words="key|keys|token|secret",
        source="a key of a JSON object and a token of a grammar are no credentials",
    ),
    Term(
        id="signature",
        words="signature|request signature|hmac|sigv4|签名|签名校验|验签|签名验证",
        source="docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html;"
        " cloud.tencent.com/document/api/1721/101527",
    ),
    Term(
        id="state",
        words="thought signature|thought signatures|thinking signature|reasoning signature"
        "|encrypted content|encrypted reasoning|thinking block|thinking blocks|reasoning item"
        "|tool result|tool results|tool output|tool outputs|function response"
        "|previous response|previous interaction|思维签名|思考签名|推理签名|思维链签名",
        source="ai.google.dev/gemini-api/docs/thought-signatures;"
        " platform.claude.com/docs/en/build-with-claude/extended-thinking",
    ),
    Term(
        id="auth",
        words="authentication|authorization|auth|login|permission|permissions|access|scopes"
        "|whitelist|allowlist|ip address|organization policy|org policy"
        "|organization policy constraint"
        "|service control policy|access policy"
        "|身份验证|鉴权|认证|权限|授权|无权访问|无权使用|无权调用|authenticate|auth failure"
        "|authenticated|authorized|authorised|unauthorized|unauthenticated",
        source=_KEYS,
    ),
    Term(
        id="region",
        words="country|countries|region|regions|territory|territories|user location|your location"
        "|地区|国家|区域",
        source=_KEYS,
    ),
    Term(
        id="location",
        words="current location|geographic location|所在地区|所在地|位置",
        source="ai.google.dev/gemini-api/docs/available-regions",
    ),
    Term(
        id="model",
        words="model|models|model id|model name|model names|model identifier|publisher model"
        "|model version|specified version|模型|base model|所请求的模型|请求的模型|您请求的模型"
        "|不支持此模型|不支持该模型|不支持的模型",
        source=_MODELS,
    ),
    Term(
        id="deployment",
        words="deployment|deployments|endpoints|inference profile|adapter|推理接入点",
        source=_MODELS,
    ),
    Term(
        id="channel",
        words="channel|channels|渠道|通道|可用的通道|可用通道|可用的渠道|可用渠道",
        source="QuantumNous/new-api:i18n/locales",
    ),
    Term(
        id="engine",
        words="engine|engine core|enginecore|engine loop|background loop|scheduler",
        source=_SERVERS + "; " + _ENGINES,
    ),
    Term(id="generation", words="generation|decoding|inference", source=_ENGINES),
    Term(id="endpoint", words="endpoint|接入点", source=_MODELS),
    Term(
        id="route",
        words="route|routes|url|request url|path|uri|page|endpoint or method|api endpoint|handler"
        "|method|路由|路径|接口地址|页面",
        source="expressjs.com/en/starter/faq.html; docs.konghq.com (no Route matched);"
        " pkg.go.dev/net/http#NotFound; ollama/ollama:server/routes.go",
    ),
    Term(
        id="tunnel",
        words="tunnel|tunnels|application|隧道",
        source="ngrok.com/docs/errors/err_ngrok_3200; docs.railway.com (Application not found)",
    ),
    Term(
        id="hosted",
        words="app|web app|space|site|machine|container|应用",
        source="huggingface.co/docs/hub/spaces-gpus (paused, sleeping); learn.microsoft.com/azure/"
        "app-service (stopped); render.com/docs/suspensions",
    ),
    Term(
        id="context",
        words="context|conversation|context length|context window|context size"
        "|maximum context length"
        "|available context size|context limit|model context length|prompt|prompts|prompt length"
        "|prompt tokens|input|inputs|input length|input tokens|input token|input token count"
        "|token count|number of tokens|number of input tokens|sequence|sequence length"
        "|maximum tokens|total length|total tokens|prompt_tokens|max_seq_len|max_total_tokens"
        "|max_new_tokens|max_input_tokens|max_model_len|prompt token count|max tokens"
        "|上下文|上下文长度|输入长度|输入|提示词|文本",
        source=_REQUESTS,
    ),
    Term(
        id="token_limit",
        words="token limit|tokens limit|model token limit|request size",
        source=_REQUESTS,
    ),
    Term(
        id="content",
        words="content|content policy|content filter|content filtering|content management policy"
        "|policy|policies|usage policy|usage policies|usage guidelines|guideline"
        "|guidelines|safety"
        "|safety system|safety reasons|safety check|guardrail|guardrails|moderation"
        "|data inspection"
        "|内容|生成内容|输入内容|策略|安全",
        source=_CONTENT,
    ),
    Term(
        id="rate",
        words="rate|rate limit|rate limits|request rate|call rate limit|token rate limit|rpm|tpm"
        "|qps|rps|concurrency|concurrency limit|concurrent requests|concurrent request"
        "|request limit"
        "|requests limit|rpm limit|tpm limit|spike arrest|throttl*|rate limited|ratelimit"
        "|速率|速率限制|频率|频率限制|访问频率|请求频率|并发|并发数|限流|流控|流量限制",
        only={"cerebras": "token quota exceeded|request quota exceeded", "yandex": "gauge quota"},
        source=_LIMITS,
    ),
    Term(
        id="requests",
        words="request|requests|call|calls|api calls|api call|tokens|queries|pending requests"
        "|请求|访问|调用|访问量|请求次数|调用次数|请求速度",
        source=_LIMITS,
    ),
    Term(id="limit", words="limit|limits|cap|上限", source=_LIMITS),
    Term(
        id="field",
        words="\x01|field|schema|json schema|json payload|property|properties|message|messages"
        "|role"
        "|roles|tool|tools|tool call|tool calls|tool choice|function call|function calls|function"
        "|file|files|file format|pdf|document|documents|token ids|contents"
        "|template|chat template|prompt template|jinja template|character"
        "|extraneous key|unexpected key"
        "|required key|image|images|content block"
        "|content blocks|temperature|audio format|grammar|字段|图片|消息内容|消息"
        "|data url|base64",
        source=_REQUESTS,
    ),
    Term(
        id="parameter",
        words="parameter|parameters|param|params|argument|arguments|json|request body|payload"
        "|validation|input validation|request format|value|参数|请求体|格式",
        source=_REQUESTS,
    ),
    Term(
        id="feature",
        words="feature|api version|thinking budget|reasoning budget|streaming|stream mode"
        "|stream|function calling|tool use"
        "|image input|vision"
        "|multimodal|embeddings|reranking|logprobs|thinking|thinking mode|reasoning"
        "|response format"
        "|structured outputs|operation|prefill|modality|audio",
        source=_REQUESTS,
    ),
    Term(
        id="server",
        words="server|servers|service|services|backend|backends|upstream|upstreams|provider"
        "|providers|system"
        "|inference server|model service|runner|runners|gpu|cuda|cluster|instance|host|hosts"
        "|model provider"
        "|服务器|服务|系统|上游|上游负载|负载|算力",
        source=_SERVERS,
    ),
    Term(
        id="worker",
        words="worker|workers|replica|replicas",
        source="docs.api.nvidia.com (503: a worker's own limit of requests); "
        "docs.ray.io/en/latest/serve",
    ),
    Term(
        id="memory",
        words="memory|system memory|gpu memory|vram|kv cache|memory allocation|cache allocation"
        "|job allocation|显存|内存",
        source=_SERVERS,
    ),
    Term(id="capacity", words="capacity|resources|资源", source=_SERVERS),
    Term(
        id="connection",
        words="connection|network|gateway|connect|socket|网络|连接",
        source=_SERVERS,
    ),
)

PREDICATES: Final = (
    # -- enough of it ---------------------------------------------------------------------
    Term(
        id="insufficient",
        words="insufficient|too low|lack of|lacks|lacking|negative|only afford|不足|不够",
        source=_MONEY,
    ),
    Term(
        id="exhausted",
        words="exhausted|depleted|used up|use up|used all|run out|ran out|out of|consumed|drained"
        "|用尽|用完|耗尽|已用尽|消耗完",
        source=_MONEY,
    ),
    Term(
        id="exceeded",
        words="exceed|exceeds|exceeded|exceeding|exceeds limit|over|surpassed|beyond|hit|reached"
        "|reaches|reaching|maxed|limited|limit exceeded|limit reached|超过|超出|超限|超额|已达"
        "|达到"
        "|超过了|触发",
        source=_LIMITS,
    ),
    Term(id="zero", words="0|0.0|$0|is 0|is zero|zero|of zero", source=_MONEY),
    Term(
        id="overdue",
        words="overdue|past due|in arrears|arrears|arrearage|unpaid|outstanding|欠费|欠款|逾期",
        source=_MONEY,
    ),
    Term(
        id="required",
        words="required|requires|require|needed|needs|need|must be provided|需要",
        source=_MONEY,
    ),
    Term(id="set_up", words="set up|setup|be enabled|turned on", source=_MONEY),
    Term(
        id="recharge",
        words="recharge|top up|add funds|add credits|add money|upgrade|purchase|buy"
        "|subscribe"
        "|pay|充值|储值|续费|续订|购买",
        source=_MONEY,
    ),
    Term(
        id="good_standing", words="good standing", source="help.aliyun.com/model-studio/error-code"
    ),
    Term(id="ended", words="ended|ends|over now|已到期|到期", source=_PLANS),
    # -- the door is shut -----------------------------------------------------------------
    Term(
        id="invalid",
        words="invalid|incorrect|wrong|malformed|bad|illegal|mismatch*|not a valid|unacceptable"
        "|无效|非法|错误|有误|不正确|不合法",
        source=_KEYS,
    ),
    Term(id="expired", words="expired|expire|expires|expiry|过期|已过期|失效|已失效", source=_KEYS),
    Term(
        id="revoked",
        words="revoked|invalidated|leaked|compromised|rotated|deleted|archived|吊销|撤销|作废",
        source=_KEYS,
    ),
    Term(
        id="missing",
        words="missing|absent|not provided|not specified|not set|no such|omitted|未提供|缺少|缺失"
        "|未收到|不能为空|为空|不允许为空|不得为空|不可为空|cannot be empty|cannot be blank"
        "|can not be blank|must not be blank|may not be blank|can not be empty"
        "|must not be empty|is empty|empty|is blank",
        source=_KEYS,
    ),
    Term(
        id="suspended",
        words="suspended|disabled|deactivated|locked|banned|terminated|restricted|closed|frozen"
        "|blacklisted|inactive|封禁|锁定|已被锁定|停用|禁用|冻结|状态不可用",
        source=_KEYS,
    ),
    Term(
        id="offline",
        words="offline|paused|hibernat*|scaled to zero|scaled down|spun down|powered off|离线"
        "|已暂停"
        "|休眠|已停止",
        source="ngrok.com/docs/errors/err_ngrok_3200; huggingface.co/docs/inference-endpoints"
        "/guides/pause_endpoint",
    ),
    Term(
        id="denied",
        words="denied|unauthenticated|forbidden|not in the whitelist|not in whitelist"
        "|not in the allowlist"
        "|not in allowlist|not on the allowlist|cannot use|can not use|may not use|unauthorized"
        "|refused"
        "|rejected|prohibited|无权|无权访问|无权使用|无权调用|没有权限|没有调用|没有访问|没有使用"
        "|拒绝|not permitted",
        source=_KEYS,
    ),
    Term(
        id="failed",
        words="failed|fails|failure|fail|unable|could not|失败|异常|未通过|不通过",
        source=_KEYS,
    ),
    Term(
        id="verify",
        words="must be verified|needs to be verified|verify your|be verified|verification",
        source="help.openai.com/en/articles/10910291",
    ),
    Term(
        id="only_for",
        words="only authorized|only allowed|only access|only valid",
        source="platform.claude.com/docs/en/api/errors",
    ),
    Term(
        id="unsupported",
        words="unsupported|not implemented|不支持|暂不支持|不支持此模型|不支持该模型|不支持的模型",
        source=_REQUESTS,
    ),
    Term(
        id="only_supports",
        words="不支持图片|不支持图像|不支持函数|不支持工具|不支持流式|不支持该参数|不支持此参数"
        "|不支持该功能"
        "|不支持所请求|不支持多模态|不支持视觉|不支持联网|不支持思考|不支持语音|不支持音频|仅支持"
        "|只支持"
        "|not a multimodal|not a chat|only support|only supports|enabled only"
        "|only supported|only works",
        source="help.aliyun.com/model-studio/error-code",
    ),
    # -- it is not there ------------------------------------------------------------------
    Term(
        id="unknown",
        words="unknown|unrecognized|unrecognised|nonexistent|non existent|不存在|未找到|找不到",
        only={"deepseek": "names are"},
        source=_MODELS,
    ),
    Term(
        id="gone",
        words="deprecated|decommissioned|retired|removed|discontinued|sunset|shut down|shut off"
        "|end of life|end of its life|no longer|withdrawn|legacy|下线|已下线|下架",
        source=_MODELS,
    ),
    Term(
        id="not_open",
        words="尚未开通|没有开通|还未开通|未开通|未开放|暂未开放|无可用渠道|无可用|non serverless",
        source="volcengine.com/docs/82379/1299023; docs.bigmodel.cn/cn/faq/api-code",
    ),
    Term(id="unavailable", words="unavailable|inaccessible|不可用", source=_SERVERS),
    # -- this request ---------------------------------------------------------------------
    Term(
        id="too_long",
        words="too long|maximum context length|range of input length"
        "|longer than|larger than|greater than|more than|above"
        "|too many|must be less than|must be less|must be <=|must be smaller|less than"
        "|not exceed|fewer than|smaller than|超长|过长|太长",
        only={"llamacpp": "shift is disabled"},
        source=_REQUESTS,
    ),
    Term(
        id="too_large",
        words="too large|too big|oversized|过大的请求|太大",
        source="RFC 9110 §15.5.14; " + _REQUESTS,
    ),
    Term(
        id="violates",
        words="violat*|flagged|blocked|filtered|triggered|triggering|exists risk|high risk"
        "|unsafe|inappropriate|harmful"
        "|sensitive|risk detection|risk detected|detected|disallowed|limited access|intervened"
        "|inspection failed"
        "|敏感|敏感内容|涉敏|不安全|违规|违反|拦截|阻止|屏蔽",
        source=_CONTENT,
    ),
    Term(
        id="expected",
        words="\x03|expected|must|should|unexpected|missing required|extra|cannot both|not match"
        "|must be|must have|must contain|should be|has to be|cannot be|unterminated|undefined",
        source=_REQUESTS,
    ),
    Term(
        id="unparsed",
        words="parse|parsed|failed to parse|could not parse|unable to parse|deserialize|解析失败",
        source=_REQUESTS,
    ),
    # -- too fast -------------------------------------------------------------------------
    Term(
        id="too_fast",
        words="too many requests|too many concurrent|too frequent|too frequently|too fast"
        "|too quickly|too often"
        "|slow down|throttl*|rate limited|too high|过高|过快|过于频繁|频繁|请求过多|控制",
        source=_LIMITS,
    ),
    Term(
        id="per_minute",
        words="per minute|per min|per second|per sec|per s|a minute|a second|minute|per m|tpm|rpm"
        "|qps|rps|requests per minute|tokens per minute|perminute|persecond|每分钟|每秒|分钟",
        source=_LIMITS,
    ),
    Term(id="per_hour", words="per hour|per h|hourly|每小时", source=_LIMITS),
    Term(
        id="per_day",
        words="per day|a day|per d|daily|per week|weekly|a week|per month|monthly|a month"
        "|per year"
        "|per mo|this month|current month|month|5 hour|5 hours|24 hour|24 hours|12 hours|rpd|tpd"
        "|billing cycle|billing period|perday|byday|today"
        "|每日|每天|每周|每月|今日|当日|当天|本月|本周|当月|日限额|月限额|5 小时|小时的使用",
        only={"github": "per 86400 s|by day"},
        source=_LIMITS,
    ),
    # -- the other side -------------------------------------------------------------------
    Term(
        id="overloaded",
        words="overloaded|overload|busy|too busy|saturated|high demand|high traffic|繁忙|过载"
        "|饱和"
        "|已饱和|负载过高|过大|at capacity",
        source=_SERVERS,
    ),
    Term(
        id="crashed",
        words="crashed|crash|died|dead|killed|out of memory|oom|encountered|unexpected eof"
        "|has terminated|has errored"
        "|exited|panic|stopped|unexpectedly stopped",
        source=_SERVERS,
    ),
    Term(
        id="timed_out",
        words="timed out|timeout|time out|deadline|reset|disconnect|disconnected"
        "|disconnect before"
        "|超时",
        source=_SERVERS,
    ),
    Term(
        id="aborted",
        words="aborted|abort|aborted by abort req|preempted|evicted",
        source=_ENGINES,
    ),
    Term(
        id="draining",
        words="draining|sleeping|asleep|shutting down|restarting|scaling",
        source=_ENGINES,
    ),
    Term(
        id="loading", words="loading|warming up|starting|initializing|cold start", source=_SERVERS
    ),
    Term(
        id="error",
        words="error|errors|exception|internal error|fault|empty response|empty reply|empty answer"
        "|invalid response|malformed response|内部错误|故障",
        source=_SERVERS,
    ),
    # -- only under a negation ------------------------------------------------------------
    Term(
        id="not_found",
        words="found|exist|exists|appear|locate|located",
        negated=True,
        source=_MODELS,
    ),
    Term(
        id="not_available",
        words="available|deployed|loaded|activated|open|accessible|served|hosted|accessed",
        negated=True,
        source=_MODELS,
    ),
    Term(
        id="not_supported",
        words="supported|recognized|recognised|known",
        negated=True,
        source=_MODELS,
    ),
    Term(
        id="lacks",
        words="support|supports|implemented|handle|handles",
        negated=True,
        source=_REQUESTS,
    ),
    Term(id="not_valid", words="valid|correct|acceptable|accepted", negated=True, source=_KEYS),
    Term(
        id="not_allowed",
        words="allowed|authorized|authorised|permitted|access|permission|permissions|entitled"
        "|eligible|member",
        negated=True,
        source=_KEYS,
    ),
    Term(id="not_active", words="active|enabled", negated=True, source=_KEYS),
    Term(
        id="not_validated",
        words="validate|validated|authenticate|authenticated|verify|verified",
        negated=True,
        source=_KEYS,
    ),
    Term(
        id="not_enough",
        words="enough|sufficient|suffice|sufficiently",
        negated=True,
        source=_MONEY,
    ),
    Term(id="none_left", words="left|remaining|remain|included", negated=True, source=_MONEY),
    Term(
        id="not_healthy",
        words="healthy|ready|reachable|respond|responding|running",
        negated=True,
        source=_SERVERS,
    ),
)

NEGATIONS: Final = _words("not no never cannot without none neither nor 不 未 没有 没 无 并未 尚未")
"""A predicate up to four words behind one of these is denied (or, if ``negated``, affirmed)."""

ENDS_NEGATION: Final = _words("and or but because since so due as although")

ADVICE: Final = _words(
    "should please check see visit try contact consider make ensure refer upgrade purchase buy "
    "enable learn read go increase reduce use wait retry head call find turn update "
    "create submit get to for 请 请您 建议 如需 前往"
)
"""A clause that begins with one of these tells the reader what to do, not what happened."""

CONDITIONS: Final = _words("if when unless whether once 如果 若")
"""From one of these to the end of the clause nothing is reported as having happened."""

TURNS: Final = _words("but however because although whereas while")
"""Words that begin a new clause."""

PREPOSITIONS: Final = _words("for with by in of on to using from within through")
"""A subject behind one of these is what the failure happened at, not what failed."""

ECHOES: Final = _words("got received input prompt content value given instead")
"""What follows one of these and a colon is a copy of the request."""
ECHOES_PLAIN: Final = _words("got received")
"""The same without a colon, to the end of the clause."""

PLAIN_FIELDS: Final = _words(
    "messages message model tools tool role content temperature stream system input "
    "inputs prompt stop seed user name type text url dimensions functions function "
    "parameters n"
)
"""Fields of requests that look like plain words where they are quoted."""

COINED: Final = _words(
    "error exceeded exhausted reached required insufficient invalid denied failed overdue disabled"
    " missing expired limited depleted not"
)
"""Words that make ``snake_case`` in a sentence a provider's own name rather than a field's."""
