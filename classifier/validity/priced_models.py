"""Names of models with a price; written by ``python -m tests.priced_models``."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.3"
"""The price table's, genai-prices (github.com/pydantic/genai-prices)."""

NAMES: Final = frozenset(
    """
ada aion-1.0 aion-1.0-mini aion-2.0 aion-3.0 aion-3.0-mini aion-3.5 aion-3.5-mini
aion-rp-llama-3.1-8b airoboros-l2-70b alia-40b-instruct alpaca-7b anubis-pro-105b-v1
apertus-70b-instruct apertus-8b-instruct apertus-v1.5-70b apriel-1.6-15b-thinker arcee-blitz
autoglm-phone-9b-multilingual babbage babbage-002 baichuan-m2-32b beam-1.0 beam-1.0-501b-a23b
bge-base-en-v1.5 bge-large-en-v1.5 bge-m3 bge-multilingual-gemma2 bge-reranker-base
bge-small-en-v1.5 bielik-11b-v3.0-instruct c4ai-aya-expanse-32b c4ai-aya-expanse-8b caller-large
chatgpt-4o chatgpt-image chronos-hermes-13b clairic claude-2 claude-3-5-haiku claude-3-5-sonnet
claude-3-7-sonnet claude-3-haiku claude-3-opus claude-3-sonnet claude-3.5-haiku
claude-3.5-sonnet claude-3.7-sonnet claude-4-opus claude-4-sonnet claude-fable claude-fable-5
claude-fable-5-1 claude-fable-5-2 claude-fable-5.1 claude-haiku claude-haiku-4-5
claude-haiku-4.5 claude-haiku-5-5 claude-haiku-5.5 claude-mythos-5-2 claude-opus claude-opus-4
claude-opus-4-0 claude-opus-4-1 claude-opus-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8
claude-opus-4.1 claude-opus-4.5 claude-opus-4.6 claude-opus-4.6-fast claude-opus-4.7
claude-opus-4.7-fast claude-opus-4.8 claude-opus-4.8-fast claude-opus-5 claude-opus-5-5
claude-opus-5-fast claude-opus-5.5 claude-sonnet claude-sonnet-4 claude-sonnet-4-0
claude-sonnet-4-5 claude-sonnet-4-6 claude-sonnet-4.5 claude-sonnet-4.6 claude-sonnet-5
claude-sonnet-5-5 claude-sonnet-5.5 claude-v1 clef clef-flash clef-omni cobuddy
codellama-13b-instruct-hf codellama-34b-instruct-hf codellama-70b-instruct-hf
codellama-7b-instruct-hf codellama-7b-instruct-solidity coder-large codestral codestral-embed
codestral-mamba codex-mini cogito-671b-v2.1 cogito-v2.1-671b command command-a command-a-plus
command-light command-r command-r-plus command-r7b composer-2.5 composer-2.5-fast computer-use
crouton-alpha curie cydonia-24b-v4.1 databricks-bge-large-en databricks-deepseek-v4-1-flash
databricks-deepseek-v4-flash databricks-deepseek-v4-pro databricks-gemma-3-12b
databricks-glm-5-2 databricks-glm-5-3 databricks-glm-5-3-flash databricks-gpt-oss-120b
databricks-gpt-oss-20b databricks-gte-large-en databricks-inkling databricks-kimi-k2-7-code
databricks-kimi-k3 databricks-llama-4-maverick databricks-meta-llama-3-1-8b-instruct
databricks-meta-llama-3-3-70b-instruct databricks-qwen3-embedding-0-6b
databricks-qwen3-next-80b-a3b-instruct databricks-qwen35-122b-a10b davinci davinci-002
deepcoder-14b-preview deephermes-3-llama-3-8b-preview deepseek-chat deepseek-chat-v3
deepseek-chat-v3.1 deepseek-coder-33b-instruct deepseek-flash deepseek-ocr-2 deepseek-pro
deepseek-prover-v2 deepseek-prover-v2-671b deepseek-r1 deepseek-r1-0528-qwen3-8b
deepseek-r1-distill-llama-70b deepseek-r1-distill-llama-8b deepseek-r1-distill-qwen-1.5b
deepseek-r1-distill-qwen-14b deepseek-r1-distill-qwen-32b deepseek-r1-distill-qwen-7b
deepseek-r1-turbo deepseek-r1-zero deepseek-r1t-chimera deepseek-reasoner deepseek-v3
deepseek-v3-base deepseek-v3.1 deepseek-v3.1-terminus deepseek-v3.2 deepseek-v3.2-exp
deepseek-v3p2 deepseek-v4-1-flash deepseek-v4-flash deepseek-v4-flash-0731-p
deepseek-v4-flash-vision-exp deepseek-v4-pro deepseek-v4.1-flash deepseek-v4.1-flash-1017-fast
deepseek-v4.1-flash-fast deepseek-v4p1-flash deepseek-v4p1-flash-1017-ultrafast
deepseek-v4p1-flash-1017-us deepseek-v4p1-flash-us deepseek_v3 devstral devstral-2-123b
devstral-2-123b-instruct devstral-small dictalm-3.0-24b-thinking distilbert-sst-2-int8
dobby-mini-unhinged-plus-llama-3.1-8b dolphin-mistral-24b-venice-edition dolphin-mixtral-8x22b
dolphin-mixtral-8x7b dolphin3.0-mistral-24b dolphin3.0-r1-mistral-24b dots-3-note-preview
eleven_realtime_v1_max eleven_realtime_v1_mini embed-v4.0 ember-1 ernie-4.5-21b-a3b
ernie-4.5-21b-a3b-pt ernie-4.5-300b-a47b-base-pt ernie-4.5-vl-28b-a3b-pt ernie-4.5-vl-424b-a47b
ernie-4.5-vl-424b-a47b-base-pt eurollm-22b-instruct eva-llama-3.33-70b eva-qwen-2.5-32b
eva-qwen-2.5-72b extract fimbulvetr-11b-v2 flint-v1.0 ft:gpt-3.5-turbo- ft:gpt-4o ft:gpt-4o-mini
fugu-max fugu-ultra gemini-1.0-pro-vision-001 gemini-1.5-flash gemini-1.5-pro gemini-2.0-flash
gemini-2.0-flash-001 gemini-2.0-flash-exp gemini-2.0-flash-lite gemini-2.0-flash-lite-001
gemini-2.0-flash-thinking-exp gemini-2.5-flash gemini-2.5-flash-image gemini-2.5-flash-lite
gemini-2.5-flash-lite-preview gemini-2.5-flash-lite-preview-06-17
gemini-2.5-flash-lite-preview-tts gemini-2.5-flash-preview gemini-2.5-flash-preview-05-20
gemini-2.5-flash-tts gemini-2.5-pro gemini-2.5-pro-exp-03-25 gemini-2.5-pro-preview-03-25
gemini-2.5-pro-tts gemini-3-flash-preview gemini-3-pro-image gemini-3-pro-image-preview
gemini-3-pro-preview gemini-3.1-flash-image gemini-3.1-flash-image-preview gemini-3.1-flash-lite
gemini-3.1-flash-lite-image gemini-3.1-flash-live-preview gemini-3.1-flash-tts-preview
gemini-3.1-pro-preview gemini-3.5-flash gemini-3.5-flash-lite gemini-3.6-flash gemini-3.7-flash
gemini-3.8-flash gemini-3.8-flash-lite-tts gemini-3.8-flash-tts gemini-3.8-live gemini-4-argon
gemini-embedding-001 gemini-embedding-2 gemini-flash gemini-flash-1.5 gemini-flash-1.5-8b
gemini-flash-1.5-8b-exp gemini-live-2.5-flash gemini-nano-banana-2.1 gemini-omni-1.1-flash
gemini-omni-1.2-flash gemini-omni-flash-preview gemini-pro gemini-pro-1.5
gemini-robotics-er-2-preview gemini-robotics-er-2-streaming-preview gemma-2-27b-it gemma-2-2b-it
gemma-2-9b-it gemma-2b gemma-3 gemma-3-12b-it gemma-3-1b-it gemma-3-27b-it gemma-3-4b-it
gemma-3n gemma-3n-e4b-it gemma-4-26b-a4b-it gemma-4-26b-a4b-it-maas gemma-4-31b gemma-4-31b-it
gemma-7b gemma-7b-it gemma-sea-lion-v4-27b-it gemma2-9b-it glimpse glm glm-4-32b
glm-4-32b-0414-128k glm-4-air glm-4-airx glm-4-assistant glm-4-flashx-250414 glm-4-long
glm-4-plus glm-4.5 glm-4.5-air glm-4.5-air-fp8 glm-4.5-airx glm-4.5-x glm-4.5v glm-4.6 glm-4.6v
glm-4.6v-flash glm-4.6v-flashx glm-4.7 glm-4.7-flash glm-4.7-flashx glm-4.7-fp8 glm-4p7 glm-5
glm-5-turbo glm-5.1 glm-5.1-fp8 glm-5.2 glm-5.2-fast glm-5.2-fp8 glm-5.3 glm-5.3-fast
glm-5.3-flash glm-5.3-flash-nvfp4 glm-5.3-flashx glm-5.3-flashx-legal glm-5.3-prime glm-5p1
glm-5p1-fast glm-5p2 glm-5p2-fast glm-5p3 glm-5p3-fast glm-5p3-flash glm-5p3-flash-us glm-5p3-us
glm-5v-turbo glm-flash glm-ocr glm-z1-32b glm-z1-rumination-32b goliath-120b gpt gpt-3.5
gpt-3.5-turbo gpt-3.5-turbo-16k gpt-3.5-turbo-instruct gpt-4 gpt-4-1106-preview gpt-4-32k
gpt-4-turbo gpt-4-vision-preview gpt-4.1 gpt-4.1-mini gpt-4.1-nano gpt-4.5-preview gpt-4o
gpt-4o-audio-preview gpt-4o-mini gpt-4o-mini-2024-07-18.ft- gpt-4o-mini-audio-preview
gpt-4o-mini-realtime-preview gpt-4o-mini-search-preview gpt-4o-mini-transcribe gpt-4o-mini-tts
gpt-4o-realtime-preview gpt-4o-search-preview gpt-4o-transcribe gpt-5 gpt-5-image
gpt-5-image-mini gpt-5-mini gpt-5-nano gpt-5-pro gpt-5-search-api gpt-5.1 gpt-5.1-codex-mini
gpt-5.2 gpt-5.2-pro gpt-5.3 gpt-5.3-chat gpt-5.3-codex gpt-5.4 gpt-5.4-image-2 gpt-5.4-mini
gpt-5.4-nano gpt-5.4-pro gpt-5.5 gpt-5.5-cyber gpt-5.5-pro gpt-5.6-cyber gpt-5.6-luna
gpt-5.6-luna-pro gpt-5.6-sol gpt-5.6-sol-pro gpt-5.6-terra gpt-5.6-terra-pro gpt-6-astra
gpt-6-astra-pro gpt-6-cyber gpt-6-luna gpt-6-rosalind gpt-6-sol gpt-6.1-sol gpt-6.1-terra
gpt-6.1-terra-pro gpt-astra gpt-audio gpt-audio-mini gpt-chat gpt-image-1 gpt-image-1-mini
gpt-image-1.5 gpt-image-2 gpt-image-2.5-flare gpt-image-2.5-sunburst gpt-jt-moderation-6b
gpt-live-1 gpt-live-transcribe gpt-luna gpt-mini gpt-oss-120b gpt-oss-120b-1 gpt-oss-20b
gpt-oss-20b-1 gpt-oss-safeguard-20b gpt-realtime gpt-realtime-2 gpt-realtime-mini
gpt-realtime-translate gpt-realtime-whisper gpt-rosalind-discovery gpt-rosalind-research gpt-sol
gpt-terra gpt-transcribe granite-4.0-h-micro granite-4.1-8b granite-4.2-8b grok grok-2
grok-2-vision grok-3 grok-3-beta grok-3-fast grok-3-mini grok-3-mini-beta grok-3-mini-fast
grok-4 grok-4-1-fast-non-reasoning grok-4-1-fast-reasoning grok-4-fast grok-4-fast-non-reasoning
grok-4-fast-reasoning grok-4.1-fast grok-4.20 grok-4.20-multi-agent grok-4.3 grok-4.5
grok-4.5-fast grok-4.6 grok-4.6-fast grok-4.7 grok-4.7-fast grok-beta grok-build-0.1
grok-code-fast-1 grok-vision-beta grok-voice grok-voice-think-fast-1.0 grok-voice-think-fast-2.0
hermes-2-pro-llama-3-8b hermes-3-llama-3.1-405b hermes-3-llama-3.1-70b hermes-4-405b
hermes-4-70b hunyuan-a13b-instruct hy-mt2-1.8b hy-mt2-30b-a3b hy-mt2-7b hy3 hy3-preview hy4
hy4-preview indictrans2-en-indic-1b inflection-3-pi inflection-3-productivity inkling
inkling-nvfp4 inkling-small intellect-3 intellect-3-fp8 internvl3-14b internvl3-2b
jamba-1-5-large jamba-1-5-mini jamba-1.6-large jamba-1.6-mini jamba-instruct jamba-large-1.7
jev-1.13 jev-1.13.0 jev-1.14 jev-1.14.0 kat-coder-pro-v2 kimi kimi-dev-72b kimi-k2
kimi-k2-0711-preview kimi-k2-0905-preview kimi-k2-instruct kimi-k2-thinking
kimi-k2-thinking-turbo kimi-k2-turbo-preview kimi-k2.5 kimi-k2.6 kimi-k2.7-code
kimi-k2.7-code-highspeed kimi-k2p5 kimi-k2p6 kimi-k2p6-fast kimi-k2p7-code kimi-k2p7-code-fast
kimi-k3 kimi-k3-fast kimi-k3-us kimi-k3.1 kimi-k3.1-pro kimi-k3.1-pro-highspeed kimi-k3p1-pro
kimi-vl-a3b-thinking l3-70b-euryale-v2.1 l3-8b-lunaris l3-8b-lunaris-v1 l3-8b-stheno-v3.2
l3-euryale-70b l3-lunaris-8b l3.1-70b-hanami-x1 l3.1-euryale-70b l3.3-electra-r1-70b
l3.3-euryale-70b l31-70b-euryale-v2.2 laguna-m.1 laguna-s-2.1 laguna-xs-2.1 laguna-xs.2
learnlm-1.5-pro-experimental lfm-2-24b-a2b lfm-2.5-1.2b-instruct lfm-2.5-1.2b-thinking
lfm-2.5-2.6b lfm-2.5-24b-a2b lfm-3-1.7b lfm-3b lfm-40b lfm-7b ling-2.6-1t ling-2.6-flash
ling-3.0-flash ling-3.0-flash-fin ling-3.0-flash-sante ling-3.0-flash-vl ling-3.0-tiny
ling-3.1-flash llama-2-13b-chat llama-2-13b-chat-hf llama-2-70b-chat llama-2-70b-chat-hf
llama-2-7b-32k-instruct llama-2-7b-chat-fp16 llama-2-7b-chat-hf llama-3-70b-chat-hf
llama-3-70b-instruct llama-3-8b-chat-hf llama-3-8b-instruct llama-3-8b-instruct-awq
llama-3-lumimaid-70b llama-3-lumimaid-8b llama-3.1-405b llama-3.1-405b-instruct
llama-3.1-405b-reasoning llama-3.1-70b-instruct llama-3.1-70b-instruct-fp8-fast
llama-3.1-70b-versatile llama-3.1-8b-instant llama-3.1-8b-instruct llama-3.1-8b-instruct-awq
llama-3.1-8b-instruct-bf16 llama-3.1-8b-instruct-fp8 llama-3.1-8b-instruct-fp8-fast
llama-3.1-lumimaid-70b llama-3.1-lumimaid-8b llama-3.1-nemotron-70b-instruct
llama-3.1-nemotron-nano-8b-v1 llama-3.1-nemotron-ultra-253b-v1 llama-3.1-sonar-large-128k-online
llama-3.1-sonar-small-128k-online llama-3.2-11b-text-preview llama-3.2-11b-vision-instruct
llama-3.2-11b-vision-preview llama-3.2-1b-instruct llama-3.2-1b-preview llama-3.2-3b-instruct
llama-3.2-3b-preview llama-3.2-90b-text-preview llama-3.2-90b-vision-instruct
llama-3.2-90b-vision-preview llama-3.3-70b llama-3.3-70b-instruct
llama-3.3-70b-instruct-fp8-fast llama-3.3-70b-instruct-turbo llama-3.3-70b-specdec
llama-3.3-70b-versatile llama-3.3-8b-instruct llama-3.3-nemotron-super-49b-v1
llama-3.3-nemotron-super-49b-v1.5 llama-3.3-swallow-70b-instruct-v0.4
llama-3_1-nemotron-ultra-253b-v1 llama-4-maverick llama-4-maverick-17b-128e-instruct
llama-4-maverick-17b-128e-instruct-fp8 llama-4-scout llama-4-scout-17b-16e-instruct
llama-guard-2-8b llama-guard-3-8b llama-guard-4-12b llama-prompt-guard-2-22m
llama-prompt-guard-2-86m llama-v3p1-8b-instruct llama2-70b llama3-1-70b-instruct
llama3-1-8b-instruct llama3-2-11b-instruct llama3-2-1b-instruct llama3-2-3b-instruct
llama3-2-90b-instruct llama3-3-70b-instruct llama3-70b llama3-70b-instruct llama3-8b
llama3-8b-instruct llama3-groq-70b-8192-tool-use-preview llama3-groq-8b-8192-tool-use-preview
llama3.1-8b llama3.1-typhoon2-70b-instruct llama3.1-typhoon2-8b-instruct
llama4-maverick-17b-instruct llama4-maverick-instruct-basic llama4-scout-17b-instruct llemma_7b
longcat-2.0 lyria-3-clip-preview lyria-3-pro-preview m2-her m2m100-1.2b macaron-v1-tall
macaron-v1-venti maestro-reasoning magistral-medium magistral-small magnum-72b magnum-v2-72b
magnum-v4-72b mai-code-1-flash-picker mai-code-1.1-flash mai-ds-r1 mercury-2 mercury-2.5
mercury-3 mercury-coder-small-beta meta-llama-3-70b-instruct meta-llama-3-70b-instruct-lite
meta-llama-3-70b-instruct-turbo meta-llama-3-8b-instruct meta-llama-3-8b-instruct-lite
meta-llama-3-8b-instruct-turbo meta-llama-3.1-405b-instruct meta-llama-3.1-405b-instruct-turbo
meta-llama-3.1-70b-instruct meta-llama-3.1-70b-instruct-turbo meta-llama-3.1-8b-instruct
meta-llama-3.1-8b-instruct-turbo meta-llama-3.3-70b-instruct meta-llama-3.3-70b-instruct-turbo
meta-llama-3_3-70b-instruct midnight-rose-70b mimo-v2-flash mimo-v2.5 mimo-v2.5-pro
mimo-v2.6-flash mimo-v2.6-flash-rl mimo-v2.6-pro mimo-v2.6-pro-rl mimo-v2.6-pro-ultraspeed
ming-image-0.1-design minimax-01 minimax-m1 minimax-m1-80k minimax-m2 minimax-m2-her
minimax-m2.1 minimax-m2.1-highspeed minimax-m2.5 minimax-m2.5-highspeed minimax-m2.7
minimax-m2.7-highspeed minimax-m2p1 minimax-m2p7 minimax-m3 minimax-m3.1-flash ministral-14b
ministral-3-14b-instruct ministral-3-3b-instruct ministral-3-8b-instruct ministral-3b
ministral-8b mistral-7b mistral-7b-instruct mistral-7b-instruct-v0.1 mistral-7b-instruct-v0.2
mistral-7b-instruct-v0.3 mistral-7b-openorca mistral-7b-v0.1 mistral-embed mistral-large
mistral-large-3-675b-instruct mistral-large-4 mistral-large-4-0 mistral-medium mistral-medium-3
mistral-medium-3-1 mistral-medium-3-5 mistral-medium-3.1 mistral-nemo mistral-nemo-instruct
mistral-ocr mistral-ocr-4-0 mistral-ocr-4-1 mistral-saba mistral-saba-24b mistral-small
mistral-small-24b-instruct mistral-small-3.1-24b-instruct mistral-small-3.2-24b-instruct
mistral-tiny mixtral-8x22b-instruct mixtral-8x22b-instruct-v0.1 mixtral-8x7b mixtral-8x7b-32768
mixtral-8x7b-instruct mixtral-8x7b-instruct-v0.1 mixtral-8x7b-v0.1 mn-celeste-12b mn-inferor-12b
mn-starcannon-12b moderation molmo-7b-d moondream3-preview moondream3.1-9b-a2b
moonlight-16b-a3b-instruct moonshot-v1-128k moonshot-v1-32k moonshot-v1-8k morph-v3-fast
morph-v3-large muse-glimmer-30b muse-spark-1.1 muse-spark-1.2 muse-spark-1.2-contributor
muse-spark-1.3 muse-spark-1.3-contributor muse-spark-open muse-spark-open-816b-a42b muse-wonder
muse-wonder-1.0 mythalion-13b mythomax-l2-13b nemotron-3-120b-a12b nemotron-3-nano-30b-a3b
nemotron-3-nano-omni-30b-a3b-reasoning nemotron-3-super-120b-a12b nemotron-3-ultra
nemotron-3-ultra-550b-a55b nemotron-3-ultra-nvfp4 nemotron-3.5-content-safety
nemotron-3.5-lightning nemotron-3.5-super-120b-a12b nemotron-3.5-super-vl
nemotron-lightning-3p5-30b-a3b nemotron-nano-12b-v2-vl nemotron-nano-3-30b nemotron-nano-9b
nemotron-nano-9b-v2 nemotron-sea-lion-v4.8-120b-a12b nemotron-super-3-120b nex-n2-pro
nex-n2.5-mini nex-n2.5-pro nexusraven-v2-13b noromaid-20b north-mini-code nous-capybara-7b-v1p9
nous-hermes-2-mixtral-8x7b-dpo nous-hermes-2-mixtral-8x7b-sft nous-hermes-2-yi-34b
nous-hermes-llama-2-7b nous-hermes-llama2-13b nova-2-lite nova-2-lite-v1 nova-2-sonic nova-lite
nova-lite-v1 nova-micro nova-micro-v1 nova-premier nova-premier-v1 nova-pro nova-pro-v1
nova-sonic nvidia-nemotron-3-super-120b-a12b-nvfp4 nvidia-nemotron-3-ultra-550b-a55b
nvidia-nemotron-3-ultra-550b-a55b-nvfp4 nvidia-nemotron-3.5-super-vl
nvidia-nemotron-3.5-super-vl-120b-a12b nvidia-nemotron-nano-12b-v2 o1 o1-mini o1-preview o1-pro
o3 o3-deep-research o3-mini o3-pro o4-mini o4-mini-deep-research olmo-3-32b-think
olmo-3-7b-instruct olmo-3.1-32b-instruct olmo-7b olympiccoder-32b olympiccoder-7b openchat-3.5
openchat-7b openhands-lm-32b-v0.1 openhermes-2-mistral-7b openhermes-2.5-mistral-7b
openhermes-2p5-mistral-7b orpheus-arabic-saudi orpheus-v1-english paddleocr-vl palm-2-chat-bison
palm-2-codechat-bison palmyra-x4 palmyra-x5 pareto pareto-26.10 pareto-26.9 particle-1
perceptron-mk1 perceptron-mk1.5 phi-2 phi-3-medium-128k-instruct phi-3-mini-128k-instruct
phi-3.5-mini-128k-instruct phi-4 phi-4-mini-instruct phi-4-multimodal-instruct phi-4-reasoning
phi-4-reasoning-plus phonellm-mini-alpha-2 pixtral-12b pixtral-large plamo-embedding-1b
platypus2-70b-instruct pplx-decider-flash-v1.2 pplx-decider-v1-27b pplx-decider-v1.1-27b
pplx-decider-v1.2 pplx-embed-context-v1-0.6b pplx-embed-context-v1-4b pplx-embed-v1-0.6b
pplx-embed-v1-4b qwen-2-72b-instruct qwen-2-7b-instruct qwen-2-vl-72b-instruct
qwen-2.5-72b-instruct qwen-2.5-7b-instruct qwen-2.5-coder-32b-instruct qwen-2.5-vl-72b-instruct
qwen-2.5-vl-7b-instruct qwen-3-32b qwen-3-coder-480b qwen-3.8-27b qwen-max qwen-mt-plus
qwen-plus qwen-sea-lion-v4-32b-it qwen-sea-lion-v4.5-27b-it qwen-turbo qwen-vl-max qwen-vl-plus
qwen1.5-0.5b qwen1.5-1.8b qwen1.5-14b qwen1.5-4b qwen1.5-72b qwen1.5-7b qwen2.5-72b-instruct
qwen2.5-7b-instruct qwen2.5-coder-32b-instruct qwen2.5-coder-3b-instruct qwen2.5-coder-7b
qwen2.5-coder-7b-instruct qwen2.5-vl-32b-instruct qwen2.5-vl-3b-instruct qwen2.5-vl-72b-instruct
qwen2.5-vl-7b-instruct qwen2p5-vl-72b-instruct qwen3-14b qwen3-14b-fp8 qwen3-235b-a22b
qwen3-235b-a22b-instruct qwen3-235b-a22b-thinking qwen3-30b-a3b qwen3-30b-a3b-fp8
qwen3-30b-a3b-instruct qwen3-30b-a3b-thinking qwen3-32b qwen3-4b-instruct qwen3-4b-thinking
qwen3-8b qwen3-coder qwen3-coder-30b-a3b qwen3-coder-30b-a3b-instruct qwen3-coder-480b-a35b
qwen3-coder-480b-a35b-instruct qwen3-coder-flash qwen3-coder-next qwen3-coder-next-fp8
qwen3-coder-plus qwen3-embedding-0.6b qwen3-embedding-8b qwen3-max qwen3-max-thinking
qwen3-next-80b-a3b-instruct qwen3-next-80b-a3b-thinking qwen3-omni-30b-a3b-thinking
qwen3-vl-235b-a22b qwen3-vl-235b-a22b-instruct qwen3-vl-235b-a22b-instruct-fp8
qwen3-vl-235b-a22b-thinking qwen3-vl-30b-a3b-instruct qwen3-vl-30b-a3b-instruct-fp8
qwen3-vl-30b-a3b-thinking qwen3-vl-32b-instruct qwen3-vl-8b-instruct qwen3-vl-8b-thinking
qwen3.5-122b-a10b qwen3.5-27b qwen3.5-35b-a3b qwen3.5-35b-a3b-fp8 qwen3.5-35b-a3b-fp8-dottxt
qwen3.5-397b-a17b qwen3.5-9b qwen3.5-flash-02-23 qwen3.5-plus qwen3.5-plus-02-15 qwen3.6-27b
qwen3.6-35b qwen3.6-35b-a3b qwen3.6-35b-a3b-fp8 qwen3.6-flash qwen3.6-max-preview qwen3.6-plus
qwen3.7-flash qwen3.7-max qwen3.7-plus qwen3.8-2.4t-a95b qwen3.8-27b qwen3.8-27b-decentered
qwen3.8-27b-fp8 qwen3.8-flash qwen3.8-flash-next qwen3.8-flash-next-fp8 qwen3.8-max
qwen3.8-max-prime qwen3.8-max-vl-thinking qwen3.8-omni-flash qwen3p6-plus qwen3p7-plus
qwen3p8-max qwerky-72b qwq-32b qwq-32b-arliai-rpr-v1 qwq-32b-preview r1 redpajama-incite-7b-base
redpajama-incite-7b-chat redpajama-incite-7b-instruct redpajama-incite-base-3b-v1
redpajama-incite-chat-3b-v1 redpajama-incite-instruct-3b-v1 regional.amazon.nova-2-lite-v1
regional.anthropic.claude-3-5-haiku-20241022-v1 regional.anthropic.claude-3-5-sonnet-20240620-v1
regional.anthropic.claude-3-5-sonnet-20241022-v2
regional.anthropic.claude-3-7-sonnet-20250219-v1 regional.anthropic.claude-3-haiku-20240307-v1
regional.anthropic.claude-3-opus-20240229-v1 regional.anthropic.claude-3-sonnet-20240229-v1
regional.anthropic.claude-fable-5-1-v1 regional.anthropic.claude-fable-5-2
regional.anthropic.claude-fable-5-v1 regional.anthropic.claude-haiku-4-5-20251001-v1
regional.anthropic.claude-haiku-5-5 regional.anthropic.claude-mythos-5-2
regional.anthropic.claude-opus-4-1-20250805-v1 regional.anthropic.claude-opus-4-20250514-v1
regional.anthropic.claude-opus-4-5-v1 regional.anthropic.claude-opus-4-6-v1
regional.anthropic.claude-opus-4-7-v1 regional.anthropic.claude-opus-4-8-v1
regional.anthropic.claude-opus-5 regional.anthropic.claude-opus-5-5
regional.anthropic.claude-sonnet-4-20250514-v1 regional.anthropic.claude-sonnet-4-5-20250929-v1
regional.anthropic.claude-sonnet-4-6-v1 regional.anthropic.claude-sonnet-5-5
regional.anthropic.claude-sonnet-5-v1 regional.moonshotai.kimi-k3 regional.moonshotai.kimi-k3.1
regional.openai.gpt-5.6-luna regional.openai.gpt-5.6-sol regional.openai.gpt-5.6-terra
regional.openai.gpt-6-astra regional.openai.gpt-6-luna regional.openai.gpt-6-sol
regional.openai.gpt-6.1-sol regional.openai.gpt-6.1-terra regional.zai.glm-5.3 reka-edge
reka-flash-3 relace-apply-3 relace-search remm-slerp-l2-13b ring-2.6-1t ripple-65b-preview
rnj-1-instruct rocinante-12b rogue-rose-103b-v0.2 router sakana-namazu sarvam-m
schematron-v2-small schematron-v2-turbo seed-1.6 seed-1.6-flash seed-2-1-turbo seed-2.0-code
seed-2.0-lite seed-2.0-mini shisa-v2-llama3.3-70b skyfall-36b-v2 snorkel-mistral-pairrm-dpo
solar-10.7b-instruct-v1.0 solar-mini4 solar-pro-3 solar-pro4 sonar sonar-deep-research sonar-pro
sonar-pro-search sonar-reasoning sonar-reasoning-pro sorcererlm-8x22b spotlight step-3.5-flash
step-3.7-flash step-5-preview stripedhyena-hessian-7b stripedhyena-nous-7b summarize
ternary-bonsai-2-27b ternary-bonsai-2-9b ternary-bonsai-27b-awq-4bit ternary-bonsai-27b-gguf
tev1-4b-experimental text-davinci-002 text-davinci-003 text-embedding-3-large
text-embedding-3-small text-embedding-ada-002 titan-embed-text titan-text-express
titan-text-lite toppy-m-7b trinity-large-thinking trinity-mini trio-spark-v1.3 tts-1 tts-1-hd
ui-tars-1.5-7b ui-tars-72b ultramarine-1-flash-us unslopnemo-12b valkyrie-49b-v1 vicuna-13b-v1.5
vicuna-7b-v1.5 virtuoso-large virtuoso-medium-v2 voxtral-mini voxtral-mini-3b
voxtral-mini-transcribe-3-0 voxtral-mini-transcribe-realtime
voxtral-mini-transcribe-realtime-3-0 voxtral-small-24b voxtral-small-transcribe-3-0 voyage-01
voyage-02 voyage-2 voyage-3 voyage-3-large voyage-3-lite voyage-3.5 voyage-3.5-lite voyage-4
voyage-4-large voyage-4-lite voyage-code-2 voyage-code-3 voyage-code-4 voyage-context-3
voyage-context-4 voyage-finance-2 voyage-large-2 voyage-large-2-instruct voyage-law-2
voyage-lite-01 voyage-lite-01-instruct voyage-lite-02-instruct voyage-multilingual-2
wayfarer-large-70b-llama-3.3 weaver whisper-1 whisper-large-v3 whisper-large-v3-turbo
wizardlm-13b-v1.2 wizardlm-2-7b wizardlm-2-8x22b xing4.0-29b-a4b xwin-lm-70b yi-34b yi-6b
yi-large zai-glm-4.7 zai-glm-5-3 zai-glm-5-3-flash zephyr-7b-beta
""".split()  # noqa: SIM905  a table
)
"""As ``classifier.logical_calls.canonical`` has them."""
