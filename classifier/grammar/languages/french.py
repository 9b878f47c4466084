"""French."""

from __future__ import annotations

from typing import Final

from classifier.grammar.language import Language

FRENCH: Final = Language(
    code="fr",
    source="learn.microsoft.com/fr-fr/azure/ai-services/openai/quotas-limits; help.ovhcloud.com/"
    "csm/fr-public-cloud-ai-endpoints; developer.mozilla.org/fr/docs/Web/HTTP/Status",
    subjects={
        "balance": "solde|fonds|portefeuille|argent",
        "credits": "crédit|crédits",
        "billing": "facturation|compte de facturation",
        "payment": "paiement|paiements|moyen de paiement|mode de paiement|carte bancaire|facture"
        "|factures|règlement",
        "spend": "dépense|dépenses|plafond de dépenses|limite de dépenses|budget",
        "arrears": "impayé|impayés|dette",
        "quota": "quota|quotas|contingent",
        "allotment": "allocation|essai gratuit|période d essai|offre gratuite|niveau gratuit"
        "|usage gratuit|crédits gratuits|enveloppe",
        "usage": "utilisation|consommation|limite d utilisation|limite de consommation"
        "|plafond d utilisation|limite de votre forfait|limite d usage",
        "plan": "forfait|abonnement|souscription|offre",
        "account": "compte|comptes|organisation|projet|espace de travail|entreprise",
        "member": "utilisateur|utilisateurs|équipe",
        "key": "clé|clés|clé d api|clé api|clé d accès|jeton d accès|jeton d authentification"
        "|clef|clefs|identifiants|informations d identification|certificat|mot de passe",
        "bare_key": "jeton",
        "signature": "signature|signature de la requête",
        "state": "signature de pensée|signature de la pensée|signature de raisonnement",
        "route": "route|chemin|page|url|adresse",
        "tunnel": "tunnel",
        "hosted": "application|conteneur",
        "auth": "authentification|autorisation|accès|droit|droits|permission|permissions"
        "|privilège|privilèges|accéder|connexion utilisateur|session|identité|authentifier"
        "|habilitation",
        "region": "pays|région|régions|territoire|zone géographique",
        "location": "localisation|emplacement|votre position",
        "model": "modèle|modèles|nom du modèle|nom de modèle|identifiant du modèle"
        "|identifiant de modèle",
        "deployment": "déploiement|déploiements",
        "channel": "canal|canaux",
        "engine": "moteur",
        "endpoint": "point de terminaison|point d accès",
        "context": "contexte|longueur de contexte|longueur du contexte|fenêtre de contexte"
        "|entrée|entrées|texte|texte d entrée|invite|conversation|nombre de tokens"
        "|nombre de jetons|tokens en entrée|séquence|taille du contexte",
        "token_limit": "limite de tokens|limite de jetons|nombre maximal de tokens"
        "|nombre maximal de jetons|nombre maximum de tokens",
        "content": "contenu|contenus|politique de contenu|politique d utilisation"
        "|conditions d utilisation|sécurité|filtre de contenu|modération|directives|politique"
        "|politiques|règles",
        "rate": "taux|débit|fréquence|limite de débit|limite de requêtes|limite de taux"
        "|limite d appels|limite de demandes|limite de fréquence|limitation de débit|cadence"
        "|requêtes simultanées|requêtes concurrentes|concurrence|limite de concurrence",
        "requests": "requête|requêtes|votre demande|la demande|cette demande|demandes|appel|appels",
        "limit": "limite|limites|plafond|maximum|nombre maximal",
        "field": "champ|champs|schéma|propriété|propriétés|outil|outils|messages|rôle|fichier"
        "|fichiers|image|images|document|documents|en tête|fonction|fonctions",
        "parameter": "paramètre|paramètres|argument|arguments|valeur|valeurs|format|json|corps"
        "|corps de la requête|validation|données",
        "feature": "fonctionnalité|appels de fonctions|appel de fonction|entrée d images"
        "|images en entrée|diffusion en continu|raisonnement|vision|audio|opération|modalité",
        "server": "serveur|serveurs|base de données|bases de données|service|services|fournisseur"
        "|système|plateforme|instance"
        "|backend|nœud|hôte",
        "memory": "mémoire",
        "capacity": "capacité|ressources",
        "connection": "connexion|réseau|passerelle|communication",
    },
    predicates={
        "insufficient": "insuffisant*|manque de|négatif|trop faible|trop bas",
        "exhausted": "épuis*|consommé*|tout utilisé|à court de",
        "exceeded": "dépassé*|dépasse|dépassent|dépassement|excède*|excédé*|atteint|atteinte"
        "|atteints|atteintes|franchi*",
        "zero": "zéro|nul",
        "overdue": "en retard|impayée|impayées|en souffrance|échue|échues",
        "required": "devez vous authentifier|requis|requise|requises|nécessaire|nécessaires|exigé*"
        "|obligatoire|nécessite",
        "set_up": "configuré*|configurer|activer",
        "recharge": "rechargez|recharger|approvisionnez|ajoutez des crédits|souscrire",
        "ended": "terminé*|pris fin|arrivé à échéance",
        "invalid": "invalide|invalides|incorrect*|erroné*|malformé*|mal formé*",
        "expired": "expiré*|périmé*|échu",
        "revoked": "révoqué*|annulé*|supprimé*",
        "missing": "manquant*|manque|absent*|omis|omise|vide|vides|non fourni*|non renseigné*"
        "|non spécifié*|n a pas été fourni*|n est pas fourni*|n a pas été renseigné*"
        "|ne peut pas être vide|ne doit pas être vide|ne peut être vide|n a pas été spécifié*",
        "suspended": "suspendu*|bloqué*|désactivé*|verrouillé*|restreint*|inactif|inactive|gelé*",
        "offline": "hors ligne|en pause|en veille|arrêté*",
        "denied": "refusé*|interdit*|rejeté*",
        "failed": "échoué|échec|échoue|impossible",
        "verify": "doit être vérifié*|non vérifié*",
        "unsupported": "non supporté*|non pris* en charge|incompatible",
        "only_supports": "ne prend en charge que|ne supporte que|n accepte que|uniquement avec",
        "unknown": "inconnu*|introuvable|introuvables|inexistant*",
        "gone": "n est plus|ne sont plus|n existe plus|retiré*|obsolète|obsolètes|abandonné*"
        "|déprécié*",
        "unavailable": "indisponible|indisponibles|hors service|inaccessible",
        "too_long": "trop long*|trop de tokens|trop de jetons|ne doit pas dépasser"
        "|ne peut pas dépasser|ne doit pas excéder|ne peut dépasser|supérieur* à|plus de",
        "too_large": "trop grand*|trop volumineu*",
        "violates": "viole|enfrein*|contrevien*|contraire*|inapproprié*|offensant*|nuisible*"
        "|sensible|sensibles|filtré*|bloqué* par|détecté*",
        "expected": "devez|doit|doivent|attendu|attendue|inattendu*|hors plage|hors limites",
        "unparsed": "analyser|interpréter|décoder",
        "too_fast": "trop de requêtes|trop de demandes|trop d appels|trop fréquent*"
        "|trop rapide*|trop rapidement|trop élevé*|trop souvent",
        "per_minute": "par minute|par seconde|chaque minute|à la minute|minute|seconde",
        "per_hour": "par heure|chaque heure|horaire",
        "per_day": "par jour|quotidien*|journalier*|journalière|mensuel*|hebdomadaire*|par mois"
        "|par semaine|ce mois|du mois|aujourd hui|du jour|annuel*|24 heures",
        "overloaded": "surchargé*|saturé*|occupé*|forte demande|surcharge|encombré*",
        "crashed": "planté|en panne|mémoire insuffisante|tombé",
        "timed_out": "délai|temps d attente|expiration du délai|temps de réponse|trop de temps",
        "aborted": "abandonnée|interrompu*|avorté*",
        "loading": "en cours de chargement|en cours de démarrage|chargement",
        "error": "réponse vide|réponse invalide|réponse mal formée|erreur|erreurs|exception|panne"
        "|erreur interne|maintenance|défaillance",
        "not_found": "trouvé*|existe|existent|localisé*",
        "not_available": "disponible*|déployé*|accessible*|ouvert*",
        "not_supported": "supporté*|pris en charge|prise en charge|prises en charge"
        "|compatible|compatibles|reconnu*",
        "lacks": "supporte|supportent|prend pas en charge|prennent pas en charge|gère|accepte"
        "|compatible avec",
        "not_valid": "valide|valides|correct|correcte|correctes|correspond*",
        "not_allowed": "autorisé*|permis|permise|habilité*|permission|droit|droits|accès",
        "not_active": "actif|active|activé*",
        "not_validated": "vérifi*|authentifié*|valider|validé*",
        "none_left": "reste|restant*",
        "not_enough": "suffisant*|assez|suffit",
        "not_healthy": "répond|répondu|répondent|fonctionne",
    },
    negations="ne n pas non aucun aucune sans jamais ni",
    none_of="pas aucun aucune sans plus",
    ends_negation="et ou mais car parce",
    advice="veuillez merci vérifiez réessayez essayez rechargez contactez consultez attendez"
    " patientez assurez utilisez réduisez mettez ajoutez pour fournissez indiquez rendez passez"
    " supprimez sélectionnez augmentez envoyez",
    conditions="si quand lorsque lorsqu",
    turns="mais car parce puisque cependant",
    prepositions="pour avec dans sur par chez en depuis à au aux",
    echoes="entrée reçu obtenu valeur contenu",
    common="le la les des du votre vos est un une ce cette ces et pour avec dans vous nous été sont"
    " plus tard nouveau actuellement quelques",
)
