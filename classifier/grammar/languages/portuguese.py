"""Portuguese."""

from __future__ import annotations

from typing import Final

from classifier.grammar.language import Language

PORTUGUESE: Final = Language(
    code="pt",
    source="docs.maritaca.ai/pt/codigos-de-erro; learn.microsoft.com/pt-br/azure/ai-services/"
    "openai/quotas-limits; developer.mozilla.org/pt-BR/docs/Web/HTTP/Status",
    subjects={
        "balance": "saldo|saldos|fundo|fundos|carteira|dinheiro",
        "credits": "crédito|créditos",
        "billing": "faturamento|cobrança|conta de faturamento|faturação",
        "payment": "pagamento|pagamentos|forma de pagamento|método de pagamento|cartão|fatura"
        "|faturas|boleto",
        "spend": "gasto|gastos|limite de gasto|limite de gastos|orçamento|limite de despesas",
        "arrears": "dívida|inadimplência|débito",
        "quota": "cota|cotas|quotas",
        "allotment": "franquia|alocação|teste gratuito|período de teste|nível gratuito"
        "|plano gratuito|uso gratuito|pacote|avaliação gratuita",
        "usage": "uso|consumo|utilização|limite de uso|limite de utilização|limite de consumo"
        "|limite do plano|limite do seu plano",
        "plan": "plano|assinatura|subscrição|planos",
        "account": "conta|contas|organização|projeto|espaço de trabalho|empresa",
        "member": "usuário|usuários|utilizador|equipe",
        "key": "chave|chaves|chave de api|chave de acesso|chave da api|chave api"
        "|token de acesso|token de autenticação|credencial|credenciais|certificado|senha",
        "bare_key": "token",
        "signature": "assinatura digital|assinatura da requisição",
        "state": "assinatura de pensamento|assinatura do pensamento|assinatura de raciocínio",
        "route": "rota|url|página|endereço",
        "tunnel": "túnel",
        "hosted": "aplicação|aplicativo|contêiner",
        "auth": "autorizado|autenticação|autorização|acesso|acessos|permissão|permissões|privilégio"
        "|privilégios|acessar|aceder|login|sessão|identidade|autenticar*",
        "region": "país|países|região|regiões|território",
        "location": "localização",
        "model": "modelo|modelos|nome do modelo|nome de modelo|identificador do modelo",
        "deployment": "implantação|implantações|deploy",
        "channel": "canal|canais",
        "engine": "motor",
        "endpoint": "ponto de extremidade",
        "context": "contexto|comprimento do contexto|tamanho do contexto|janela de contexto"
        "|comprimento de contexto|entrada|entradas|texto|texto de entrada|mensagem de entrada"
        "|conversa|número de tokens|quantidade de tokens|tokens de entrada|sequência",
        "token_limit": "limite de tokens|máximo de tokens|limite máximo de tokens",
        "content": "conteúdo|conteúdos|política de conteúdo|políticas de conteúdo"
        "|política de uso|políticas de uso|segurança|filtro de conteúdo|moderação|diretrizes"
        "|política|políticas",
        "rate": "taxa|frequência|limite de taxa|limite de requisições|limite de solicitações"
        "|limite de chamadas|limite de pedidos|limite de velocidade|limite de frequência"
        "|concorrência|simultaneidade|requisições simultâneas|solicitações simultâneas",
        "requests": "requisição|requisições|solicitação|solicitações|pedido|pedidos|chamada"
        "|chamadas|consulta|consultas",
        "limit": "limite|limites|teto|máximo",
        "field": "campo|campos|esquema|propriedade|propriedades|ferramenta|ferramentas|mensagens"
        "|papel|arquivo|arquivos|imagem|imagens|documento|documentos|cabeçalho|função|funções",
        "parameter": "parâmetro|parâmetros|argumento|argumentos|valor|valores|formato|json|corpo"
        "|corpo da requisição|corpo da solicitação|validação|dados",
        "feature": "recurso de visão|funcionalidade|chamadas de função|chamada de função"
        "|entrada de imagens|entrada de imagem|transmissão|raciocínio|visão|áudio|operação"
        "|modalidade|chamadas de funções",
        "server": "servidor|servidores|banco de dados|serviço|serviços|provedor|fornecedor|sistema"
        "|plataforma"
        "|instância|backend|nó",
        "memory": "memória",
        "capacity": "capacidade|recursos",
        "connection": "conexão|ligação|rede|gateway|comunicação",
    },
    predicates={
        "insufficient": "insuficiente|insuficientes|falta de|negativo|muito baixo",
        "exhausted": "esgotad*|esgotou|esgotaram|consumid*|acabou|acabaram|gastou|utilizou todo*"
        "|usou todo*|zerad*",
        "exceeded": "excedid*|excede|excedem|excedeu|excederam|ultrapass*|atingid*|atingiu"
        "|atingiram|alcançad*|alcançou|superad*|supera|superou|estourad*|estourou|excedente",
        "zero": "zero|é 0",
        "overdue": "vencida|vencidas|pendente|pendentes|em atraso|atrasad*|inadimplente|em aberto",
        "required": "necessári*|obrigatório|requer|exige|exigid*|requerid*|precisa",
        "set_up": "configurad*|configurar|habilitar|ativar",
        "recharge": "recarregue|recarga|recarregar|adicione saldo|adicione créditos|faça upgrade"
        "|atualize seu plano|contrate",
        "ended": "encerrad*|encerrou|terminad*|terminou|finalizad*",
        "invalid": "inválid*|incorret*|errad*|malformad*|mal formad*|não válid*",
        "expired": "expirad*|expirou|expiraram|vencid*|venceu|caducou",
        "revoked": "revogad*|revogou|cancelada|excluíd*|removid*",
        "missing": "falta|faltam|faltando|ausente|ausentes|omitid*|vazio|vazia|vazios|vazias"
        "|em branco"
        "|não informad*|não foi informad*|não fornecid*|não foi fornecid*|não enviad*"
        "|não foi enviad*|não pode estar vazi*|não pode ser vazi*|não especificad*|não recebid*"
        "|não foi especificad*",
        "suspended": "suspens*|bloquead*|desativad*|desabilitad*|inativ*|restrit*|congelad*",
        "offline": "offline|desligad*|em pausa|pausad*|desconectad*",
        "denied": "negad*|proibid*|recusad*|rejeitad*",
        "failed": "falhou|falha|falharam|não foi possível|não é possível",
        "verify": "precisa ser verificad*|não verificad*",
        "unsupported": "incompatível",
        "only_supports": "só suporta|suporta apenas|aceita apenas|somente suporta",
        "unknown": "desconhecid*|inexistente|inexistentes",
        "gone": "não está mais|não é mais|não estão mais|já não|descontinuad*|descontinuou"
        "|aposentad*|obsolet*",
        "unavailable": "indisponível|indisponíveis|fora do ar|fora de serviço",
        "too_long": "muito long*|muito extens*|long* demais|não deve exceder|não pode exceder"
        "|não deve ultrapassar|não pode ultrapassar|maior que|mais de|superior a|muitos tokens"
        "|tokens demais",
        "too_large": "muito grande|grande demais",
        "violates": "viola|violam|violar|violou|infring*|fere|imprópri*|inadequad*|ofensiv*"
        "|nociv*|sensível|sensíveis|filtrad*|bloqueou|detectad*|detectou",
        "expected": "deve|devem|esperad*|esperava|inesperad*|fora do intervalo|precisa ser",
        "unparsed": "analisar|interpretar|decodificar",
        "too_fast": "muitas requisições|muitas solicitações|muitas chamadas|muitos pedidos"
        "|requisições demais|muito frequent*|muito rápid*|muito alta|solicitações demais"
        "|excesso de",
        "per_minute": "por minuto|por segundo|cada minuto|minuto|segundo",
        "per_hour": "por hora|cada hora",
        "per_day": "por dia|ao dia|diári*|mensal|mensais|semanal|semanais|por mês|ao mês|este mês"
        "|deste mês|por semana|de hoje|do mês|anual|do dia|24 horas",
        "overloaded": "sobrecarregad*|saturad*|ocupad*|congestionad*|alta demanda|sobrecarga",
        "crashed": "caiu|travou|parou|sem memória|falta de memória",
        "timed_out": "tempo limite|tempo esgotado|esgotou o tempo|tempo de resposta"
        "|tempo de espera|demorou demais|demorou muito",
        "aborted": "abortad*|cancelado|interrompid*",
        "loading": "carregando|inicializando|iniciando",
        "error": "resposta vazia|resposta inválida|resposta malformada|erro|erros|exceção"
        "|erro interno|falha interna|manutenção",
        "not_found": "encontrad*|encontrou|existe|existem|localizad*|encontramos",
        "not_available": "disponível|disponíveis|implantad*|acessível|liberad*",
        "not_supported": "suportad*|compatível|compatíveis|reconhecid*|aceit*",
        "lacks": "suporta|suportam|oferece suporte|compatível com|tem suporte|possui suporte",
        "not_valid": "válid*|corret*|corresponde",
        "not_allowed": "autorizad*|permitid*|permissão|permissões|permite|direito|acesso ao",
        "not_active": "ativ*|habilitad*",
        "not_validated": "verificar|verificad*|autentic*|validar|validad*",
        "none_left": "resta|restam|restante|restantes|sobrou",
        "not_enough": "suficiente|suficientes|bastante",
        "not_healthy": "responde|respondeu|respondendo|funcionando",
    },
    negations="não sem nenhum nenhuma nunca nem",
    none_of="sem não nenhum nenhuma",
    ends_negation="e ou mas porque pois",
    advice="por verifique confira tente aguarde espere recarregue adicione contate entre consulte"
    " certifique atualize use utilize reduza forneça informe faça acesse para se envie solicite"
    " remova selecione revise",
    conditions="caso quando enquanto",
    turns="mas porque pois embora porém",
    prepositions="para com em no na nos nas por pelo pela sobre ao",
    echoes="entrada recebido obtido valor conteúdo",
    common="o a os as do da dos das seu sua seus é está um uma este esta com para por foi você mais"
    " momento novamente tarde ao",
)
