"""German."""

from __future__ import annotations

from typing import Final

from classifier.grammar.language import GERMAN_SPELLING, Language

GERMAN: Final = Language(
    code="de",
    source="docs.ionos.com/cloud/ai/ai-model-hub; docs.aleph-alpha.com; learn.microsoft.com/de-de/"
    "azure/ai-services/openai/quotas-limits; developer.mozilla.org/de/docs/Web/HTTP/Status",
    respelled=GERMAN_SPELLING,
    subjects={
        "balance": "guthaben|kontostand|kontoguthaben|restguthaben|saldo|prepaid guthaben|geld"
        "|punktestand",
        "credits": "credits|kredit|kredite|guthabenpunkte",
        "billing": "abrechnung|abrechnungskonto|rechnungskonto|rechnungsstellung",
        "payment": "zahlung|zahlungen|zahlungsmethode|zahlungsart|zahlungsmittel|rechnung"
        "|rechnungen|bezahlung|zahlungsinformationen",
        "spend": "ausgaben|ausgabenlimit|ausgabenlimits|budget|kostenlimit|ausgabengrenze"
        "|ausgabenobergrenze|kostengrenze",
        "arrears": "zahlungsrückstand|rückstand|zahlungsverzug",
        "quota": "kontingent|kontingente|quote|quoten|tokenkontingent|quota",
        "allotment": "freikontingent|testphase|probezeitraum|kostenlos* kontingent|testguthaben"
        "|inklusivvolumen|freivolumen|zuteilung",
        "usage": "nutzung|verbrauch|nutzungslimit|nutzungsgrenze|verbrauchslimit|planlimit"
        "|nutzungsobergrenze|nutzungskontingent",
        "plan": "tarif|tarifs|abo|abonnement|mitgliedschaft|vertrag|plans",
        "account": "konto|kontos|benutzerkonto|organisation|projekt|arbeitsbereich|mandant",
        "member": "benutzer|nutzer|anwender|team",
        "key": "schlüssel|schlüssels|api schlüssel|zugangsschlüssel|zugriffsschlüssel"
        "|zugriffstoken|zugangstoken|authentifizierungstoken|anmeldedaten|zugangsdaten"
        "|anmeldeinformationen|zertifikat|passwort|sicherheitstoken",
        "signature": "signatur|signaturen",
        "state": "gedankensignatur|denksignatur|signatur des gedankens",
        "route": "route|pfad|seite|url|adresse",
        "tunnel": "tunnel",
        "hosted": "anwendung|webanwendung",
        "auth": "autorisiert|authentifizieren|sich anmelden|authentifizierung|authentifizierungs*"
        "|autorisierung|anmeldung|zugriff|zugang"
        "|berechtigung|berechtigungen|zuzugreifen|zugreifen|rechte|zugriffsrechte|identität"
        "|authentisierung|sitzung|zugriffs",
        "region": "land|ländern|region|regionen",
        "location": "standort|standorts|aufenthaltsort",
        "model": "modell|modelle|modells|modellname|modellnamen|modellkennung|modellversion",
        "deployment": "bereitstellung|bereitstellungen",
        "channel": "kanal|kanäle",
        "endpoint": "endpunkt",
        "context": "kontext|kontextlänge|kontextfenster|kontextgröße|eingabe|eingaben|eingabetext"
        "|text|prompt|eingabelänge|eingabetoken|eingabetokens|anzahl der tokens|tokenanzahl"
        "|konversation|sequenz|anzahl der token",
        "token_limit": "tokenlimit|tokengrenze|maximale tokenanzahl|maximale anzahl an tokens",
        "content": "inhalt|inhalte|inhalts*|inhaltsrichtlinie|inhaltsrichtlinien|inhaltsfilter"
        "|richtlinie|richtlinien|nutzungsrichtlinien|nutzungsbedingungen|sicherheit"
        "|sicherheitsrichtlinien|moderation",
        "rate": "rate|ratenlimit|ratenbegrenzung|anfragelimit|anfragelimits|anfragenlimit"
        "|anforderungslimit|abfragelimit|anfragerate|anfragehäufigkeit|zugriffslimit"
        "|gleichzeitige anfragen|gleichzeitiger anfragen|parallele anfragen|aufruflimit"
        "|geschwindigkeitslimit",
        "requests": "anfrage|anfragen|anforderung|anforderungen|aufruf|aufrufe|abfragen|zugriffe",
        "limit": "limit|limits|grenze|obergrenze|höchstgrenze|grenzwert|begrenzung|maximum",
        "field": "feld|felder|pflichtfeld|pflichtfelder|schema|eigenschaft|eigenschaften|werkzeug"
        "|werkzeuge|nachrichten|rolle|datei|dateien|bild|bilder|dokument|dokumente|kopfzeile"
        "|funktion|funktionen|header",
        "parameter": "parameter|parameters|parametern|argument|argumente|wert|werte|format|json"
        "|anfragekörper|validierung|body|daten|anfrageformat",
        "feature": "funktionsaufruf|funktionsaufrufe|funktionsaufrufen|bildeingabe|bildeingaben"
        "|streaming|merkmal|modalität|operation|vorgang|audio|werkzeugaufrufe",
        "server": "server|servers|datenbank|dienst|dienste|dienstes|service|anbieter|system"
        "|plattform"
        "|instanz|backend|knoten|cluster|upstream",
        "memory": "speicher|arbeitsspeicher",
        "capacity": "kapazität|kapazitäten|ressourcen",
        "connection": "verbindung|netzwerk|gateway|verbindungsaufbau|kommunikation",
    },
    predicates={
        "insufficient": "unzureichend*|ungenügend*|zu niedrig|zu gering*|reicht nicht"
        "|reichen nicht|mangel|nicht genug|nicht aus|nicht genügend|nicht ausreichend*",
        "exhausted": "erschöpft|aufgebraucht|ausgeschöpft|verbraucht|aufgezehrt",
        "exceeded": "überschritten|überschreitet|überschreiten|überschreitung|erreicht"
        "|übersteigt|übertrifft",
        "zero": "null|beträgt 0",
        "overdue": "überfällig*|ausstehend*|offen*|im verzug|unbezahlt*",
        "required": "müssen sich authentifizieren|müssen sich anmelden|erforderlich|benötigt"
        "|notwendig|muss angegeben werden|nötig",
        "set_up": "eingerichtet werden|hinterlegt werden|einrichten",
        "recharge": "aufladen|laden sie|aufstocken|nachbuchen|upgraden",
        "ended": "beendet|abgeschlossen|ausgelaufen",
        "invalid": "ungültig*|falsch*|fehlerhaft*|inkorrekt*|unzulässig*|nicht korrekt",
        "expired": "abgelaufen*|läuft ab|verfallen",
        "revoked": "widerrufen*|zurückgezogen|gelöscht|entzogen",
        "missing": "fehlt|fehlen|fehlend*|nicht angegeben|nicht übermittelt|nicht gesetzt"
        "|leer|leer sein|keine angabe|darf nicht leer sein|nicht übergeben|nicht mitgesendet",
        "suspended": "gesperrt*|deaktiviert*|eingeschränkt|inaktiv*|geschlossen|eingefroren"
        "|stillgelegt",
        "offline": "offline|pausiert*|angehalten",
        "denied": "verweigert|abgelehnt|untersagt|verboten|zurückgewiesen",
        "failed": "fehlgeschlagen|gescheitert|schlug fehl|konnte nicht|konnten nicht|kann nicht",
        "verify": "verifiziert werden|bestätigt werden",
        "only_supports": "unterstützt kein*|unterstützt nur|unterstützt dies*|unterstützt die"
        "|unterstützt den|unterstützt das|unterstützt nicht",
        "unknown": "unbekannt*|unauffindbar|existiert nicht|existieren nicht|gibt es nicht"
        "|nicht vorhanden*",
        "gone": "nicht mehr|abgeschaltet|eingestellt|entfernt|veraltet|abgekündigt|außer betrieb",
        "unavailable": "nicht erreichbar|ausgefallen",
        "too_long": "zu lang|zu viele tokens|zu viele token|nicht überschreiten|größer als"
        "|länger als|mehr als|höchstens",
        "too_large": "zu groß|zu umfangreich",
        "violates": "verstößt|verstoßen|verletzt|gefiltert|blockiert|unangemessen*|anstößig*"
        "|schädlich*|erkannt|beanstandet|unerlaubt*",
        "expected": "muss|müssen|erwartet*|unerwartet*|außerhalb",
        "unparsed": "parsen|geparst|interpretiert|gelesen werden|verarbeitet werden",
        "too_fast": "zu viele anfragen|zu viele anforderungen|zu viele aufrufe|zu viele zugriffe"
        "|zu schnell|zu häufig|zu oft|zu hoch",
        "per_minute": "pro minute|pro sekunde|je minute|je sekunde|minute|sekunde|minuten*",
        "per_hour": "pro stunde|stündlich*|je stunde",
        "per_day": "pro tag|täglich*|tages|tages*|monatlich*|monats|monats*|pro monat|wöchentlich*"
        "|wochen|pro woche|diesen monat|heute|heutig*|jährlich*|24 stunden",
        "overloaded": "überlastet|überlastung|ausgelastet|auslastung|beschäftigt|hohe nachfrage"
        "|hohe last|hoher last",
        "crashed": "abgestürzt|absturz|nicht genügend arbeitsspeicher",
        "timed_out": "zeitüberschreitung|zeitlimit|timeout|zu lange gedauert|zeitablauf",
        "aborted": "abgebrochen|abbruch|unterbrochen",
        "draining": "heruntergefahren|neu gestartet|wartung|wartungsarbeiten",
        "loading": "geladen wird|wird geladen|startet|gestartet|wird gestartet",
        "error": "leere antwort|ungültige antwort|fehlerhafte antwort|fehler|ausnahme|störung"
        "|interner fehler|interner serverfehler|ausfall",
        "not_found": "finden|gefunden|existiert|existieren|auffindbar|ermittelt|zugeordnet"
        "|vorhanden",
        "not_available": "verfügbar*|erreichbar|freigeschaltet|bereitgestellt|nutzbar|verwendbar"
        "|freigegeben",
        "not_supported": "unterstützt*|unterstützung|bekannt|möglich",
        "not_valid": "gültig*|korrekt*|richtig|zulässig",
        "not_allowed": "berechtigt|autorisiert|erlaubt|gestattet|befugt|berechtigung"
        "|berechtigungen|zugelassen|zugriff|rechte",
        "not_active": "aktiv|aktiviert",
        "not_validated": "verifiziert|authentifiziert|validiert|überprüft|bestätigt",
        "none_left": "übrig|verbleibend*|mehr vorhanden",
        "not_enough": "genug|genügend|ausreichend*|ausreicht",
        "not_healthy": "antwortet|reagiert|bereit|geantwortet",
    },
    negations="nicht kein keine keinen keinem keiner ohne nie niemals weder",
    none_of="kein keine keinen keinem keiner ohne",
    ends_negation="und oder aber weil da sondern",
    advice="bitte versuchen versuche prüfen überprüfen kontaktieren wenden stellen laden warten"
    " verwenden nutzen kaufen buchen erhöhen aktualisieren siehe beachten reduzieren kürzen geben"
    " wechseln um erneuern",
    conditions="wenn falls sofern sobald ob",
    turns="aber weil jedoch sondern da",
    relatives="der die das den dem dessen deren welche welcher welches",
    continues="auf zu diese dieses diesen",
    prepositions="für mit von in im bei an am auf aus zu zum zur über durch unter nach gegen",
    echoes="eingabe erhalten empfangen wert inhalt",
    heads="inhalt daten punktestand region limit limits kontingent guthaben schlüssel grenze token"
    " länge fenster filter fehler"
    " dienst server modell",
    common="der die das den dem des ein eine einer ist sind wurde wurden wird werden hat haben ihr"
    " ihre ihren ihrem sie es dieses diese dieser und für mit von im bei später erneut derzeit"
    " noch",
)
