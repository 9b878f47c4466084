"""Answers that are a provider's error put in place of a model's words, and words about errors.

Both lists were written before the reader, but for the last of each; none of the sentences is from
a corpus.
"""

from __future__ import annotations

import pytest

from classifier.error_texts import LONGEST, reads_as
from classifier.verdicts import Subcategory

RATE, PROVIDER, QUOTA = Subcategory.RATE_LIMIT, Subcategory.PROVIDER_ERROR, Subcategory.QUOTA
AUTH, MODEL = Subcategory.AUTH, Subcategory.MODEL_NOT_FOUND
REJECTED = Subcategory.REJECTED_REQUEST

_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx/1.24.0</center>\r\n</body>\r\n</html>\r\n"
)
_CLOUDFLARE = (
    '<!DOCTYPE html>\n<html class="no-js" lang="en-US"> <head>\n<title>api.example.com | 522: '
    'Connection timed out</title></head><body><div id="cf-wrapper">Error 522 Ray ID: 8f0a • '
    "Your IP: Click to reveal</div></body></html>"
)

ERRORS: tuple[tuple[str, Subcategory], ...] = (
    ("[API ERROR] HTTP 500: Internal Server Error.", PROVIDER),
    ("[API ERROR] HTTP 429: Too Many Requests", RATE),
    ("[ERROR 503] Service Unavailable", PROVIDER),
    ("[SERVICE UNAVAILABLE] The upstream is temporarily unable to handle the request.", PROVIDER),
    ("[TIMEOUT] The request timed out. The server did not respond in time.", PROVIDER),
    ("[Rate limit exceeded] Too many requests per minute, please slow down.", RATE),
    ("**API Error:** 529 Overloaded. Please try again later.", PROVIDER),
    ("API Error: 500 Internal Server Error", PROVIDER),
    (
        (
            'API Error: 401 {"type":"error","error":{"type":"authentication_error",'
            '"message":"invalid x-api-key"}}'
        ),
        AUTH,
    ),
    ("API error (429): rate limit reached for requests per minute", RATE),
    ("API call failed: connection to the upstream server timed out", PROVIDER),
    ("HTTP 503: The server is temporarily overloaded. Try again later.", PROVIDER),
    ("HTTP/1.1 502 Bad Gateway", PROVIDER),
    ("HTTP Error 429: Too Many Requests", RATE),
    ("HTTP status 402: Insufficient credits", QUOTA),
    (
        (
            "Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-***', "
            "'code': 'invalid_api_key'}}"
        ),
        AUTH,
    ),
    (
        (
            "Error code: 429 - {'error': {'message': 'You exceeded your current quota, please "
            "check your plan and billing details.', 'code': 'insufficient_quota'}}"
        ),
        QUOTA,
    ),
    ("Error: 404 The model `gpt-4-32k` does not exist or you do not have access to it.", MODEL),
    ("Error 529: Overloaded", PROVIDER),
    ("Error: Request failed with status code 500", PROVIDER),
    ("Request failed with status code 429", RATE),
    ("Request failed: 503 Service Unavailable", PROVIDER),
    ("Upstream error: 502", PROVIDER),
    (
        (
            "upstream connect error or disconnect/reset before headers. reset reason: connection "
            "termination"
        ),
        PROVIDER,
    ),
    ("no healthy upstream", PROVIDER),
    ("Server error 503: the engine is overloaded", PROVIDER),
    ("Model error: the model claude-2 is not found", MODEL),
    ("LLM request failed: 401 Unauthorized", AUTH),
    ("LLM provider error: rate limit exceeded, retry after 20 seconds", RATE),
    ("OpenAI API error: insufficient_quota", QUOTA),
    ("Anthropic API error: overloaded_error", PROVIDER),
    ("litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached", RATE),
    ("litellm.ServiceUnavailableError: the backend is unavailable", PROVIDER),
    ("openai.AuthenticationError: Error code: 401", AUTH),
    ("APIConnectionError: Connection error.", PROVIDER),
    ("InternalServerError: The server had an error while processing your request.", PROVIDER),
    ("ThrottlingException: Too many tokens per minute, please wait before trying again.", RATE),
    ("You exceeded your current quota, please check your plan and billing details.", QUOTA),
    (
        (
            "Incorrect API key provided: sk-ab****yz. You can find your API key at "
            "https://platform.example.com/account/api-keys."
        ),
        AUTH,
    ),
    (
        (
            "Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit "
            "30000, Used 29000, Requested 2000."
        ),
        RATE,
    ),
    (
        (
            "The server had an error processing your request. Sorry about that! You can retry your "
            "request, or contact us through our help center."
        ),
        PROVIDER,
    ),
    (
        "That model is currently overloaded with other requests. You can retry your request.",
        PROVIDER,
    ),
    (
        '{"error": {"message": "Rate limit exceeded", "type": "rate_limit_error", "code": 429}}',
        RATE,
    ),
    ('{"error": "insufficient_quota", "message": "Your credit balance is too low."}', QUOTA),
    ('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', PROVIDER),
    (
        '{"error": "content_policy_violation", "message": "This response has been filtered."}',
        REJECTED,
    ),
    (_PAGE.format("502 Bad Gateway"), PROVIDER),
    (_PAGE.format("504 Gateway Time-out"), PROVIDER),
    (_PAGE.format("429 Too Many Requests"), RATE),
    (_CLOUDFLARE, PROVIDER),
    ("[API 错误] 500: 服务器内部错误", PROVIDER),
    ("错误：429 请求过于频繁，请稍后再试", RATE),
    ("API 调用失败: 余额不足，请充值", QUOTA),
    ("请求失败，状态码：503", PROVIDER),
    ("エラー 429: リクエストが多すぎます", RATE),
    ("APIエラー: 503 サービスを利用できません", PROVIDER),
    ("[오류] HTTP 500: 내부 서버 오류", PROVIDER),
    ("Ошибка API: 503 Сервис временно недоступен", PROVIDER),
    ("API-Fehler 429: Zu viele Anfragen", RATE),
    ("Erreur HTTP 502 : mauvaise passerelle", PROVIDER),
    ("Error HTTP 503: Servicio no disponible", PROVIDER),
    ("Erro da API: 500 Erro interno do servidor", PROVIDER),
    # written after the reader
    ("⚠️ API Error: 503 no available channels", PROVIDER),
    ("Error: 503 Service Unavailable - upstream overloaded", PROVIDER),
    ("Provider returned error: 429", RATE),
    ("[LLM ERROR] rate_limit_exceeded", RATE),
    ("ERROR: HTTP 500 Internal Server Error", PROVIDER),
    (
        (
            "<html><head><title>503 Service Temporarily "
            "Unavailable</title></head><body><center><h1>503 Service Temporarily "
            "Unavailable</h1></center></body></html>"
        ),
        PROVIDER,
    ),
    ("[TIMEOUT] Connection dropped. The server did not respond.", PROVIDER),
    ("Error communicating with OpenAI: rate limit exceeded", RATE),
    ("Claude API request failed: 529 overloaded", PROVIDER),
    (
        (
            "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for "
            "aiplatform.googleapis.com"
        ),
        RATE,
    ),
    (
        (
            "botocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) "
            "when calling the Converse operation: Too many requests"
        ),
        RATE,
    ),
    ("Error code: 503 - no healthy upstream", PROVIDER),
    ("模型调用失败：401 密钥无效", AUTH),
    ('{"error":{"code":500,"message":"Internal error"}}', PROVIDER),
    ("API Error: Connection error.", PROVIDER),
    ('API Error: 400 {"error":{"message":"prompt is too long"}}', REJECTED),
)

WORDS: tuple[str, ...] = (
    "The API returns 429 when you send more than 60 requests per minute.",
    "HTTP 500 means Internal Server Error: the server failed to handle the request.",
    "429 Too Many Requests",
    "404 Not Found",
    "503 Service Unavailable",
    "The answer is 503.",
    "500",
    "Error",
    "Yes, the server is overloaded.",
    "Error: file not found",
    "Error: division by zero",
    "[ERROR] 3 tests failed.",
    "[ERROR] The input file is empty, so there is nothing to convert.",
    "[TIMEOUT] The test suite timed out after 300 seconds; I stopped it.",
    "Error: expected 429 rows but found 428.",
    "Error 404: I could not find the page that you asked me to open.",
    "Error: the order 503 cannot be cancelled, since it has shipped.",
    "Your account has an insufficient balance for this transfer.",
    "I'm sorry, your payment was declined because the card has insufficient funds.",
    "You have exceeded your credit limit. Please make a payment before the next purchase.",
    "Your subscription has expired, so I cannot book this for you.",
    "The request timed out, so I tried again with a longer limit.",
    "The key in config.py is invalid. Replace it and run the tests again.",
    "Your API key is invalid: it lacks the prefix that the service wants.",
    "RateLimitError is raised when the client sends too many requests.",
    "RateLimitError: catch it and sleep before the next attempt, as in the snippet above.",
    "I fixed the handler: it now answers 503 Service Unavailable while the queue is full.",
    "The function raises TimeoutError when the upstream does not respond.",
    "HTTP 500: the handler divides by zero when the list is empty. I added a guard.",
    "HTTP 401: the test forgot to log in first, so the fixture now sets the cookie.",
    "HTTP Error 404 occurs when the URL is wrong; check the path in your code.",
    "Error code: 429 means that the quota of the project is used up.",
    "API error 500 is what users see now. The cause is line 42 of views.py.",
    "API errors are now logged with their status code.",
    "Error handling is done: the client retries on 429 and 503.",
    "Error: HTTP 404 while fetching https://example.org/data.csv, so the table has no 2024 row.",
    "Request failed with status code 500 is printed by axios; the real cause is in the log.",
    "Upstream errors (502, 503) are retried three times.",
    "The upstream connect error comes from Envoy. Its cluster has no healthy hosts.",
    "No healthy upstream is what Envoy says when every host of a cluster is out.",
    "It fails with 'Incorrect API key provided' since the variable is empty.",
    "You exceeded your current quota is OpenAI's message for an account without credits.",
    "The model is overloaded with parameters; use a linear regression instead.",
    "That model is too large for this GPU.",
    "Too many requests were filed in May; the office closed on the 12th.",
    "The rate limit of the endpoint is 100 requests per second.",
    "Service unavailable windows are Sundays from 2 to 4.",
    "The engine overheated, and the server of the restaurant left.",
    "The token has expired. Log in again to get a new one.",
    "Access denied: you are not on the list of guests.",
    "Model not found in the catalogue. Did you mean the Civic 2019?",
    '{"error": "no invoice number in the document"}',
    '{"error": null, "result": 42}',
    '{"error": "invalid date", "field": "birthday"}',
    '{"status": 500, "count": 3}',
    '{"answer": "429 Too Many Requests"}',
    '{"error": {"message": "The user is not allowed to cancel this order", "code": 7}}',
    "<html><head><title>My first page</title></head><body><h1>Hello</h1></body></html>",
    "<!DOCTYPE html><html><head><title>404 ways to cook rice</title></head><body></body></html>",
    "<div>502 Bad Gateway</div>",
    "```\nHTTP/1.1 503 Service Unavailable\nRetry-After: 120\n```",
    "`API Error: 500 Internal Server Error` is shown by the client.",
    "Exception: ValueError('invalid literal')",
    "Fixed the error. All 503 tests pass.",
    "Timeout: 30 seconds. Retries: 3.",
    "Limit reached: the budget of 500 euros is spent.",
    "API 在请求过多时返回 429 错误。",
    "错误 429 表示请求过于频繁，你需要在代码中加入重试。",
    "您的账户余额不足，无法完成支付。",
    "错误：找不到文件 config.yaml",
    "エラー 500 はサーバー内部の問題を意味します。",
    "残高が不足しているため、予約できません。",
    "오류 404는 페이지를 찾을 수 없다는 뜻입니다.",
    "Ошибка 500 означает внутреннюю ошибку сервера.",
    "Ошибка: файл не найден.",
    "Fehler 503 bedeutet, dass der Dienst nicht verfügbar ist.",
    "Fehler: Die Datei fehlt.",
    "L'erreur 404 signifie que la page n'existe pas.",
    "El error 503 significa que el servicio no está disponible.",
    "Erro: o arquivo não existe.",
    "Error: Your code returns 500 for empty lists.",
    "Server error 500 in production was caused by the missing index; it is fixed.",
    # written after the reader
    "Error: 401k contributions exceed the limit.",
    "[Limit exceeded] The knapsack holds 50 kg at most.",
    "(Error) The test fails.",
    "Server error: the restaurant's server brought the wrong dish.",
    "Service failed: the booking system has no room on 503 Main Street.",
    "HTTP 404: Not Found",
    "Model error: RMSE 0.34 on the held-out set.",
    "Model error: 4.2 percent; the limit is 5.",
    "API error: the schema in openapi.yaml lacks a type.",
    "Request failed: the manager did not approve the leave.",
    "Error: permission denied",
    "Error: connection refused",
    "Error: the model does not exist in models.py.",
    "The request failed with status code 500.",
    "Provider failed: Dr. Smith is not in network.",
    "Gateway error: the warp gateway cannot open in this scene.",
    "Network error: out of range",
    "Error: Payment failed, insufficient funds on card 4242.",
    "Payment error: insufficient balance. Please use another card.",
    "API key not found in environment.",
    "Error: 500 is not a prime number",
    "Error 500: the total of the invoice does not match.",
    "Quota: 500 GB",
    "Rate limit: 429 per hour",
    "[FILTERED] 12 rows were removed.",
    "[BLOCKED] Waiting for approval by the manager.",
    "(failed) 3 of 10 checks",
    "Exception: 42",
    "Server error: cannot connect to database on port 5432",
    "Database error: too many connections",
    "Der Server ist überlastet.",
    "Erreur : le fichier est introuvable",
    "错误：用户名不存在",
    "失败：订单 503 不存在",
    "模型错误：均方误差为 0.5",
)


def test_there_are_enough_of_both() -> None:
    assert len(ERRORS) >= 40
    assert len(WORDS) >= 60
    assert not {text for text, _ in ERRORS} & set(WORDS)


@pytest.mark.parametrize(("text", "expected"), ERRORS)
def test_an_error_in_place_of_an_answer_is_read(text: str, expected: Subcategory) -> None:
    assert reads_as(text) == expected


@pytest.mark.parametrize("text", WORDS)
def test_a_models_own_words_are_not(text: str) -> None:
    assert reads_as(text) is None


def test_what_is_long_is_no_error() -> None:
    error = "[API ERROR] HTTP 500: Internal Server Error."
    assert reads_as(f"{error}\n{' ' * LONGEST}\n") is not None
    assert reads_as(f"{error} {'Then the service went on. ' * 20}") is None
    assert reads_as(f"{error}\n\nI restarted the service and ran the tests again.") is None
