"""Spanish."""

from __future__ import annotations

from typing import Final

from classifier.grammar.language import Language

SPANISH: Final = Language(
    code="es",
    source="cloud.google.com/apis/design/errors?hl=es-419; learn.microsoft.com/es-es/azure/"
    "ai-services/openai/quotas-limits; developer.mozilla.org/es/docs/Web/HTTP/Status",
    subjects={
        "balance": "saldo|saldos|fondo|fondos|monedero|cartera|dinero",
        "credits": "crédito|créditos",
        "billing": "facturación|cobro|cuenta de facturación",
        "payment": "pago|pagos|método de pago|forma de pago|tarjeta|factura|facturas",
        "spend": "gasto|gastos|límite de gasto|límite de gastos|presupuesto|límite de facturación",
        "arrears": "deuda|morosidad",
        "quota": "cuota|cuotas|cupo",
        "allotment": "asignación|prueba gratuita|periodo de prueba|nivel gratuito|plan gratuito"
        "|bono|paquete|consumo incluido",
        "usage": "uso|consumo|límite de uso|límite de consumo|límite de su plan|límite del plan"
        "|tope de uso",
        "plan": "suscripción|subscripción|membresía|tarifa",
        "account": "cuenta|cuentas|organización|proyecto|espacio de trabajo|empresa",
        "member": "usuario|usuarios|equipo",
        "key": "clave|claves|clave de api|clave de acceso|clave api|llave|llaves|ficha de acceso"
        "|token de acceso|token de autenticación|credencial|credenciales|certificado|contraseña",
        "bare_key": "token",
        "signature": "firma|firma de la solicitud",
        "state": "firma de pensamiento|firma del pensamiento|firma de razonamiento",
        "route": "ruta|url|página|dirección",
        "tunnel": "túnel",
        "hosted": "aplicación|contenedor",
        "auth": "autorizado|autenticación|autorización|autentificación|acceso|accesos|permiso"
        "|permisos"
        "|privilegio|privilegios|acceder|sesión|identidad|autenticar*|identificarse|iniciar sesión",
        "region": "país|países|región|regiones|territorio|zona geográfica",
        "location": "ubicación",
        "model": "modelo|modelos|nombre de modelo|nombre del modelo|identificador de modelo"
        "|identificador del modelo",
        "deployment": "despliegue|despliegues|implementación",
        "channel": "canal|canales",
        "engine": "motor",
        "endpoint": "punto de conexión|punto final",
        "context": "contexto|longitud de contexto|longitud del contexto|ventana de contexto"
        "|entrada|entradas|texto|texto de entrada|mensaje de entrada|instrucción|conversación"
        "|longitud de entrada|número de tokens|cantidad de tokens|tokens de entrada|secuencia",
        "token_limit": "límite de tokens|máximo de tokens|límite máximo de tokens",
        "content": "contenido|contenidos|política de contenido|políticas de contenido"
        "|política de uso|políticas de uso|normas|seguridad|filtro de contenido|moderación"
        "|directrices|política|políticas",
        "rate": "tasa|frecuencia|límite de velocidad|límite de frecuencia|límite de solicitudes"
        "|límite de peticiones|límite de llamadas|límite de tasa|concurrencia"
        "|solicitudes simultáneas|solicitudes concurrentes|peticiones simultáneas"
        "|límite de concurrencia",
        "requests": "solicitud|solicitudes|petición|peticiones|llamada|llamadas|consulta|consultas",
        "limit": "límite|límites|tope|máximo",
        "field": "campo|campos|esquema|propiedad|propiedades|herramienta|herramientas|mensajes"
        "|rol|archivo|archivos|imagen|imágenes|documento|documentos|cabecera|función|funciones",
        "parameter": "parámetro|parámetros|argumento|argumentos|valor|valores|formato|json"
        "|cuerpo|cuerpo de la solicitud|cuerpo de la petición|validación|datos",
        "feature": "característica|funcionalidad|llamadas a funciones|entrada de imágenes"
        "|imágenes de entrada|transmisión|razonamiento|visión|audio|operación|modalidad",
        "server": "servidor|servidores|base de datos|servicio|servicios|proveedor|sistema"
        "|plataforma|instancia"
        "|backend|clúster|nodo|anfitrión",
        "memory": "memoria",
        "capacity": "capacidad|recursos",
        "connection": "conexión|red|pasarela|puerta de enlace|comunicación",
    },
    predicates={
        "insufficient": "insuficiente|insuficientes|falta de|escaso|negativo|demasiado bajo",
        "exhausted": "agotad*|agoto|agotaron|consumid*|acabad*|acabo|acabaron|gastad*|terminaron"
        "|consumio|quedado sin|quedo sin",
        "exceeded": "excedid*|excede|exceden|excedio|excedieron|supera|superan|supero|superad*"
        "|sobrepas*|rebas*|alcanzad*|alcanzo|alcanza|alcanzaron|llegado al",
        "zero": "cero|es 0",
        "overdue": "vencida|vencidas|pendiente|pendientes|impagad*|impago|atrasad*|morosa|moroso",
        "required": "requerid*|requiere|requieren|necesari*|necesita|se debe|obligatorio",
        "set_up": "configurad*|configurar|habilitar|activar",
        "recharge": "recargue|recarga|recargar|recarge|abone|añada saldo|agregue saldo"
        "|actualice su plan|contrate",
        "ended": "finalizad*|finalizo|terminad*|termino|concluid*",
        "invalid": "inválid*|incorrect*|erróne*|malformad*|mal formad*|no válid*|equivocad*",
        "expired": "caducad*|caduco|expirad*|expiro|vencio|vencid*",
        "revoked": "revocad*|revoco|anulad*|eliminad*",
        "missing": "falta|faltan|ausente|ausentes|omitid*|vacío|vacía|vacíos|vacías|en blanco"
        "|no enviad*"
        "|no proporcionad*|no se proporcion*|no se ha proporcionado|no se especific*"
        "|no puede estar vaci*|no se indic*|no se recib*|no se ha indicado",
        "suspended": "suspendid*|bloquead*|desactivad*|deshabilitad*|inhabilitad*|cerrad*"
        "|restringid*|inactiv*|congelad*",
        "offline": "fuera de línea|desconectad*|en pausa|pausad*",
        "denied": "denegad*|prohibid*|rechazad*|rechazo",
        "failed": "fallo|falló|falla|fallado|fallida|fallido|no se pudo|no ha sido posible"
        "|no fue posible|no es posible",
        "verify": "debe verificar|verificación pendiente|sin verificar",
        "unsupported": "no compatible",
        "only_supports": "solo admite|solo acepta|solo soporta|únicamente admite",
        "unknown": "desconocid*|inexistente|inexistentes",
        "gone": "ya no|retirad*|retiro|obsolet*|descontinuad*|discontinuad*|dado de baja",
        "unavailable": "no disponible|indisponible|fuera de servicio|caído",
        "too_long": "demasiado larg*|demasiado extens*|demasiados tokens|no debe exceder"
        "|no puede exceder|no debe superar|no puede superar|mayor que|más de|superior a|demasiados",
        "too_large": "demasiado grande",
        "violates": "viola|violan|infring*|incumpl*|inapropiad*|inadecuad*|ofensiv*|dañin*"
        "|sensible|filtrad*|bloqueo|bloquead* por|detectad*|detecto|prohibido",
        "expected": "debe|deben|esperaba|se esperaba|inesperad*|fuera de rango|fuera del rango",
        "unparsed": "analizar|interpretar|no se pudo leer",
        "too_fast": "demasiadas solicitudes|demasiadas peticiones|demasiadas llamadas"
        "|demasiadas consultas|muy frecuent*|demasiado rápid*|demasiado alta|muchas solicitudes",
        "per_minute": "por minuto|por segundo|al minuto|cada minuto|minuto|segundo",
        "per_hour": "por hora|cada hora|la hora",
        "per_day": "por día|al día|diari*|mensual*|semanal*|por mes|al mes|este mes|por semana"
        "|de hoy|del mes|anual|del día|24 horas",
        "overloaded": "sobrecargad*|saturad*|ocupad*|congestionad*|alta demanda|mucha demanda"
        "|sobrecarga|al máximo de su capacidad",
        "crashed": "detenid*|sin memoria|ha fallado inesperad*|colapsad*",
        "timed_out": "tiempo de espera|tiempo agotado|tardó demasiado|agotado el tiempo|plazo"
        "|tiempo límite|tiempo de respuesta",
        "aborted": "abortad*|cancelad*|interrumpid*",
        "loading": "cargándose|se está cargando|iniciándose|arrancando",
        "error": "respuesta vacía|respuesta inválida|respuesta mal formada|error|errores|excepción"
        "|avería|error interno|fallo interno|mantenimiento",
        "not_found": "encontr*|existe|existen|halló|hallado|localiz*",
        "not_available": "disponible|disponibles|desplegad*|accesible|puede utilizar|puede usar",
        "not_supported": "soportad*|admitid*|compatible|compatibles|reconocid*|permite",
        "lacks": "soporta|admite|acepta|compatible con|admiten|soportan",
        "not_valid": "válid*|correct*|coincid*",
        "not_allowed": "autorizad*|permitid*|permiso|permisos|habilitado para|autoriza|derecho",
        "not_active": "activ*|habilitad*",
        "not_validated": "verific*|autentic*|validar|validad*|completad*",
        "none_left": "queda|quedan|restante|restantes",
        "not_enough": "suficiente|suficientes|alcanza para|bastante",
        "not_healthy": "responde|respondio|responden|ha respondido|funciona|operativo",
    },
    negations="no ni sin ningún ninguna nunca tampoco",
    none_of="no sin ningún ninguna",
    ends_negation="y o pero porque ya",
    advice="por póngase compruebe verifique revise intente inténtelo inténtalo vuelva espere"
    " recargue"
    " actualice contacte consulte asegúrese utilice use añada agregue reduzca proporcione indique"
    " consiga visite pruebe para aumente elimine cambie envíe recarga comprueba revisa verifica"
    " espera usa intenta reintente seleccione",
    conditions="si cuando salvo mientras",
    turns="pero porque aunque",
    prepositions="para con en por sobre mediante desde a al",
    echoes="entrada recibido obtenido valor contenido",
    common="el la los las del su sus es está un una este esta con para por se ha fue más momento"
    " tarde nuevo",
)
