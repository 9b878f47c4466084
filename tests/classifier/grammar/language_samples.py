"""Errors in other languages, worded as providers, gateways and proxies of those countries do.

They were written before the stems of their languages, when 35 of the first 148 were told: by their
status, or by an English word. The sentences are this project's own. ``REPORTS`` are failures;
``LOOKALIKES`` are answers of a model that speak of failures; ``ADVICE`` reports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from classifier.verdicts import Subcategory

A = Subcategory.AUTH
Q = Subcategory.QUOTA
M = Subcategory.MODEL_NOT_FOUND
L = Subcategory.RATE_LIMIT
P = Subcategory.PROVIDER_ERROR
R = Subcategory.REJECTED_REQUEST


@dataclass(frozen=True, slots=True)
class Report:
    """One sentence of an error, the status it came with (200: inside an answer), its cause."""

    language: str
    status: int
    gives: Subcategory
    message: str
    reason: str | None = None


def _reports(
    language: str, *rows: tuple[int, Subcategory, str] | tuple[int, Subcategory, str, str]
) -> tuple[Report, ...]:
    return tuple(Report(language, *row) for row in rows)


REPORTS = (
    *_reports(
        "ja",
        (403, Q, "ご利用可能なクレジットを使い切りました。残高を追加してください。"),
        (200, Q, "月間トークン上限を超過しています。"),
        (400, Q, "お支払い方法が登録されていないため、リクエストを処理できません。"),
        (400, A, "認証トークンの有効期限が切れています。"),
        (200, A, "指定されたAPIキーは存在しないか、失効しています。"),
        (400, A, "このIPアドレスからのアクセスは許可されていません。"),
        (400, M, "指定されたモデル「aya-9」が見つかりません。"),
        (400, M, "このモデルは提供を終了しました。後継モデルをご利用ください。"),
        (200, M, "モデル名が正しくありません: sakura-7b"),
        (200, L, "短時間に多くのリクエストが送信されました。少し待ってからやり直してください。"),
        (400, L, "1分あたりのリクエスト数の制限を超えました。"),
        (200, P, "サーバーが混み合っているため、応答できませんでした。"),
        (200, P, "システムエラーが発生しました。"),
        (200, P, "バックエンドとの通信がタイムアウトしました。"),
        (500, R, "入力トークン数がモデルの最大コンテキスト長を超えています。", "context_length"),
        (
            400,
            R,
            "不適切なコンテンツが検出されたため、リクエストは拒否されました。",
            "content_filter",
        ),
        (200, R, "リクエストボディの形式が不正です。"),
        (400, R, "パラメータ「temperature」の値が範囲外です。", "malformed"),
        (400, R, "このモデルは画像入力に対応していません。", "unsupported"),
    ),
    *_reports(
        "ko",
        (403, Q, "크레딧이 모두 소진되었습니다. 충전 후 이용해 주세요."),
        (200, Q, "이번 달 사용량 한도를 초과하였습니다."),
        (400, Q, "잔액이 부족하여 요청을 처리할 수 없습니다."),
        (400, A, "유효하지 않은 API 키입니다."),
        (200, A, "인증 정보가 만료되었습니다. 다시 로그인해 주십시오."),
        (400, A, "해당 리소스에 대한 접근 권한이 없습니다."),
        (400, M, "요청하신 모델을 찾을 수 없습니다."),
        (400, M, "존재하지 않는 모델입니다: solar-9"),
        (200, M, "해당 모델은 서비스가 종료되었습니다."),
        (200, L, "요청이 너무 많습니다. 잠시 후 다시 시도해 주세요."),
        (400, L, "분당 요청 한도를 초과했습니다."),
        (200, P, "서버가 일시적으로 과부하 상태입니다."),
        (200, P, "내부 서버 오류가 발생했습니다."),
        (200, P, "응답 시간이 초과되었습니다."),
        (500, R, "입력 길이가 모델의 최대 컨텍스트 길이를 초과합니다.", "context_length"),
        (400, R, "유해한 내용이 포함되어 있어 요청이 차단되었습니다.", "content_filter"),
        (200, R, "필수 파라미터가 누락되었습니다."),
        (400, R, "'messages' 필드의 형식이 올바르지 않습니다.", "malformed"),
        (400, R, "이 모델은 이미지 입력을 지원하지 않습니다.", "unsupported"),
    ),
    *_reports(
        "ru",
        (403, Q, "На вашем счёте закончились деньги. Пополните баланс."),
        (200, Q, "Исчерпан месячный лимит токенов."),
        (400, Q, "Срок действия подписки истёк, оплатите тариф."),
        (400, A, "Ключ доступа недействителен или был отозван."),
        (200, A, "Ошибка авторизации: токен просрочен."),
        (400, A, "У сервисного аккаунта нет прав на выполнение этой операции."),
        (400, M, "Указанная модель не существует."),
        (200, M, "Модель, указанная в запросе, больше не поддерживается."),
        (403, M, "Нет доступа к модели pro-max."),
        (200, L, "Слишком много запросов, повторите через 10 секунд."),
        (400, L, "Превышено количество запросов в минуту."),
        (200, P, "Сервер перегружен. Попробуйте ещё раз."),
        (200, P, "Внутренняя ошибка сервера"),
        (200, P, "Истекло время ожидания ответа от модели."),
        (500, R, "Длина запроса превышает размер контекста модели.", "context_length"),
        (400, R, "Запрос отклонён: содержимое нарушает правила использования.", "content_filter"),
        (200, R, "Не указано обязательное поле «messages»."),
        (400, R, "Неверный формат параметра temperature."),
        (400, R, "Модель не поддерживает вызов функций.", "unsupported"),
    ),
    *_reports(
        "de",
        (403, Q, "Ihr Guthaben ist aufgebraucht. Bitte laden Sie Ihr Konto auf."),
        (200, Q, "Das monatliche Kontingent wurde ausgeschöpft."),
        (400, Q, "Für diese Anfrage reicht Ihr Guthaben nicht aus."),
        (400, A, "Ungültiger API-Schlüssel."),
        (200, A, "Das Zugriffstoken ist abgelaufen."),
        (400, A, "Sie sind nicht berechtigt, auf diese Ressource zuzugreifen."),
        (400, M, "Das angeforderte Modell wurde nicht gefunden."),
        (200, M, "Das Modell luminous-9 existiert nicht."),
        (400, M, "Dieses Modell ist nicht mehr verfügbar."),
        (200, L, "Zu viele Anfragen. Versuchen Sie es später erneut."),
        (400, L, "Anfragelimit pro Minute überschritten."),
        (200, P, "Der Dienst ist derzeit überlastet."),
        (200, P, "Interner Serverfehler"),
        (200, P, "Zeitüberschreitung bei der Verbindung zum Backend."),
        (
            500,
            R,
            "Die Eingabe überschreitet die maximale Kontextlänge des Modells.",
            "context_length",
        ),
        (400, R, "Die Anfrage verstößt gegen unsere Inhaltsrichtlinien.", "content_filter"),
        (200, R, "Das Pflichtfeld „messages“ fehlt."),
        (400, R, "Der Parameter 'top_p' hat einen ungültigen Wert.", "malformed"),
        (400, R, "Funktionsaufrufe werden von diesem Modell nicht unterstützt.", "unsupported"),
    ),
    *_reports(
        "es",
        (403, Q, "Se han agotado los créditos de su cuenta."),
        (200, Q, "Ha alcanzado el límite mensual de uso de su plan."),
        (400, Q, "No dispone de saldo suficiente para esta operación."),
        (400, A, "El token de acceso ha caducado."),
        (200, A, "Credenciales incorrectas"),
        (400, A, "Su cuenta no tiene permiso para usar este servicio."),
        (400, M, "El modelo solicitado no existe."),
        (200, M, "No se encontró el modelo «mixto-8»."),
        (400, M, "Este modelo fue retirado y ya no está disponible."),
        (200, L, "Demasiadas peticiones en poco tiempo. Espere un momento."),
        (400, L, "Se superó el número máximo de solicitudes por minuto."),
        (200, P, "El servidor está sobrecargado en este momento."),
        (200, P, "Error interno del servidor"),
        (200, P, "Se agotó el tiempo de espera de la conexión con el servidor."),
        (500, R, "El texto de entrada supera la longitud máxima del contexto.", "context_length"),
        (
            400,
            R,
            "La solicitud fue bloqueada porque infringe la política de contenido.",
            "content_filter",
        ),
        (200, R, "Falta el campo obligatorio 'messages'."),
        (400, R, "El valor del parámetro 'n' no es válido.", "malformed"),
        (400, R, "Este modelo no admite llamadas a funciones.", "unsupported"),
    ),
    *_reports(
        "pt",
        (403, Q, "Seus créditos acabaram. Adicione saldo para continuar."),
        (200, Q, "Você atingiu o limite diário de uso do seu plano."),
        (400, Q, "Saldo insuficiente para concluir a requisição."),
        (400, A, "Chave de API inválida ou revogada."),
        (200, A, "O token de autenticação expirou."),
        (400, A, "Você não tem permissão para acessar este recurso."),
        (400, M, "O modelo solicitado não foi encontrado."),
        (200, M, "Modelo inexistente: sabia-9"),
        (400, M, "Este modelo foi descontinuado."),
        (200, L, "Muitas requisições. Tente novamente em alguns segundos."),
        (400, L, "Limite de requisições por minuto excedido."),
        (200, P, "O servidor está sobrecarregado no momento."),
        (200, P, "Erro interno no servidor"),
        (200, P, "O tempo de resposta do serviço esgotou."),
        (500, R, "O prompt ultrapassa o tamanho máximo do contexto do modelo.", "context_length"),
        (400, R, "Conteúdo bloqueado por violar as políticas de uso.", "content_filter"),
        (200, R, "O campo obrigatório 'messages' não foi informado."),
        (400, R, "Valor inválido para o parâmetro 'temperature'.", "malformed"),
        (400, R, "Este modelo não suporta entrada de imagens.", "unsupported"),
    ),
    *_reports(
        "fr",
        (403, Q, "Votre crédit est épuisé, veuillez recharger votre compte."),
        (200, Q, "Vous avez atteint votre limite d'utilisation mensuelle."),
        (400, Q, "Solde insuffisant pour traiter cette demande."),
        (400, A, "Clé d'API non valide."),
        (200, A, "Le jeton d'accès a expiré."),
        (400, A, "Vous n'êtes pas autorisé à accéder à cette ressource."),
        (400, M, "Le modèle demandé est introuvable."),
        (200, M, "Le modèle « plume-9 » n'existe pas."),
        (400, M, "Ce modèle n'est plus disponible."),
        (200, L, "Trop de requêtes. Réessayez dans quelques instants."),
        (400, L, "Nombre maximal de requêtes par minute dépassé."),
        (200, P, "Le serveur est actuellement surchargé."),
        (200, P, "Erreur interne du serveur"),
        (200, P, "Le délai d'attente de la réponse du service a été dépassé."),
        (500, R, "L'entrée dépasse la longueur de contexte maximale du modèle.", "context_length"),
        (
            400,
            R,
            "La demande a été bloquée car elle enfreint notre politique de contenu.",
            "content_filter",
        ),
        (200, R, "Le champ obligatoire « messages » est manquant."),
        (400, R, "La valeur du paramètre 'top_k' est invalide.", "malformed"),
        (400, R, "Ce modèle ne prend pas en charge les appels de fonctions.", "unsupported"),
    ),
    *_reports(
        "zh",
        (403, Q, "您的帳戶餘額不足，請先儲值。"),
        (400, Q, "本月的免費額度已經用完了"),
        (200, A, "API 金鑰無效或已被撤銷"),
        (400, A, "簽名校驗未通過"),
        (400, A, "当前账号没有调用该接口的权限"),
        (400, M, "找不到您指定的模型"),
        (200, M, "该模型尚未开通，请先在控制台开通后再调用"),
        (200, L, "請求過於頻繁，請稍後再試"),
        (400, L, "已超出每分钟请求数上限"),
        (200, P, "系统繁忙，请稍候再试"),
        (200, P, "推理服务响应超时"),
        (500, R, "输入的 token 数超过了模型支持的最大上下文长度", "context_length"),
        (400, R, "输入中包含违规内容，已被拦截", "content_filter"),
        (200, R, "消息内容不允许为空"),
        (400, R, "该模型不支持图片输入", "unsupported"),
    ),
)

LATER = (
    *_reports(
        "ru",
        (200, P, "Модель вернула пустой ответ, повторите запрос."),
        (200, R, "Слишком большой запрос."),
    ),
    *_reports("es", (200, R, "La petición es demasiado grande.", "too_large")),
    *_reports("fr", (200, P, "Le modèle a renvoyé une réponse vide.")),
    *_reports("de", (200, A, "Sie müssen sich erneut authentifizieren.")),
    *_reports("pt", (200, A, "Não autorizado, entre na sua conta.")),
    *_reports("pt", (200, R, "A página solicitada não foi encontrada.", "wrong_endpoint")),
    *_reports("ja", (200, L, "このキーの使用量がレート制限に達しました。")),
    *_reports("ko", (200, R, "보내신 문서의 길이가 한도를 초과했습니다.", "context_length")),
    *_reports("zh", (200, A, "您的帳戶已被停用。"), (200, M, "沒有可用的通道來處理該模型。")),
)
"""Added after the words, each for a sentence of strangers that was misread."""

# -- what must not be read as a failure -----------------------------------------------------------


def _chat(text: str) -> Mapping[str, object]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    }


def _with_status(text: str, word: str) -> Mapping[str, object]:
    return {**_chat(text), "code": 0, "message": word, "error": ""}


LOOKALIKES: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "ja": (
        _chat("残高が不足しています。チャージしてください。"),
        _chat("エラー429は、リクエスト数が上限に達したことを意味します。"),
        _with_status("APIキーが無効な場合は401が返ります。", "成功しました"),
        _with_status("サーバーが混み合っています、と表示されます。", "正常に処理されました"),
        {**_chat("はい。"), "warnings": ["モデルはまもなく提供を終了します。"]},
    ),
    "ko": (
        _chat("잔액이 부족합니다."),
        _chat("429 오류는 요청 한도를 초과했다는 뜻입니다."),
        _with_status("API 키가 유효하지 않으면 401이 반환됩니다.", "성공"),
        _with_status("모델을 찾을 수 없습니다라는 메시지입니다.", "정상 처리되었습니다"),
        {**_chat("네."), "notice": "해당 모델은 곧 종료됩니다."},
    ),
    "ru": (
        _chat("Недостаточно средств на балансе."),
        _chat("Ошибка 429 означает, что превышен лимит запросов."),
        _with_status("Если ключ недействителен, вернётся 401.", "Успешно"),
        _with_status("Модель не найдена — так говорит сервер.", "ОК, запрос выполнен"),
        {**_chat("Да."), "warning": "Скоро эта модель будет отключена."},
    ),
    "de": (
        _chat("Ihr Guthaben ist aufgebraucht."),
        _chat("Fehler 429 bedeutet, dass zu viele Anfragen gesendet wurden."),
        _with_status("Ist der API-Schlüssel ungültig, kommt 401.", "Erfolgreich"),
        _with_status("Das Modell wurde nicht gefunden, sagt der Server.", "Anfrage verarbeitet"),
        {**_chat("Ja."), "hinweis": "Dieses Modell wird bald abgeschaltet."},
    ),
    "es": (
        _chat("Saldo insuficiente."),
        _chat("El error 429 significa que se superó el límite de solicitudes."),
        _with_status("Si la clave no es válida, recibirá un 401.", "Operación correcta"),
        _with_status("El modelo no existe, dice el servidor.", "Éxito"),
        {**_chat("Sí."), "aviso": "Este modelo se retirará pronto."},
    ),
    "pt": (
        _chat("Saldo insuficiente."),
        _chat("O erro 429 significa que o limite de requisições foi excedido."),
        _with_status("Se a chave for inválida, o retorno é 401.", "Sucesso"),
        _with_status("Modelo não encontrado, diz o servidor.", "Requisição concluída"),
        {**_chat("Sim."), "aviso": "Este modelo será descontinuado em breve."},
    ),
    "fr": (
        _chat("Votre crédit est épuisé."),
        _chat("L'erreur 429 signifie que la limite de requêtes est dépassée."),
        _with_status("Si la clé n'est pas valide, on reçoit 401.", "Succès"),
        _with_status("Le modèle n'existe pas, dit le serveur.", "Requête traitée"),
        {**_chat("Oui."), "avertissement": "Ce modèle sera bientôt retiré."},
    ),
    "zh": (
        _chat("餘額不足，請儲值。"),
        _chat("429 错误表示请求过于频繁。"),
        _with_status("密钥无效时会返回 401。", "操作成功"),
        _with_status("模型不存在。", "请求成功"),
        {**_chat("好的。"), "notice": "该模型即将下线。"},
    ),
}

ADVICE: Mapping[str, tuple[str, ...]] = {
    "ja": (
        "APIキーが有効であることを確認してください。",
        "上限を超えた場合はエラーになります。",
        "APIキーは有効です。",
        "残高は十分です。",
        "「残高が不足しています」を解析できません",
    ),
    "ko": (
        "API 키가 만료되지 않았는지 확인해 주세요.",
        "한도를 초과하면 오류가 반환됩니다.",
        "API 키가 유효합니다.",
        "모델을 찾았습니다.",
        "한도를 초과하지 않았습니다.",
    ),
    "ru": (
        "Проверьте, что ключ API не истёк.",
        "Если лимит превышен, вернётся ошибка.",
        "Ключ действителен.",
        "Лимит запросов не превышен.",
        "Не удалось разобрать «баланс исчерпан»",
    ),
    "de": (
        "Bitte prüfen Sie, ob Ihr API-Schlüssel abgelaufen ist.",
        "Es schlägt fehl, wenn das Kontingent erschöpft ist.",
        "Der API-Schlüssel ist gültig.",
        "Das Kontingent ist nicht erschöpft.",
        "Das Modell wurde gefunden.",
    ),
    "es": (
        "Compruebe que su clave de API no haya caducado.",
        "Fallará si el saldo se ha agotado.",
        "La clave de API es válida.",
        "El modelo existe.",
        "El límite de solicitudes no se ha superado.",
    ),
    "pt": (
        "Verifique se a chave de API não expirou.",
        "Vai falhar quando o saldo estiver esgotado.",
        "A chave de API é válida.",
        "O modelo foi encontrado.",
        "O limite de requisições não foi excedido.",
    ),
    "fr": (
        "Veuillez vérifier que votre clé d'API n'a pas expiré.",
        "Cela échoue si le crédit est épuisé.",
        "La clé d'API est valide.",
        "Le modèle existe.",
        "La limite de requêtes n'est pas dépassée.",
    ),
    "zh": (
        "请检查您的密钥是否已过期。",
        "如果额度用尽则会失败。",
        "密钥有效。",
        "余额充足。",
        "请求频率未超过限制。",
    ),
}
"""Sentences that report nothing: advice, conditions, quotations, and that all is well."""
