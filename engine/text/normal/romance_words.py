"""What Spanish, French, Italian and Portuguese say for signs, units and short forms. Core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tongue:
    """One of the four languages.

    Attributes:
        language: its tag.
        comma: said for a decimal comma.
        address: how signs are called in addresses.
        months: of the year, from the first.
        day_of: between day, month and year of a date.
        signs: how all other signs are called.
        currencies: sign or code -> one, several, one hundredth, several.
        joint: between an amount and its hundredths.
        of: between millions and what they are; an elision is undone before a consonant.
        units: sign -> one, several.
        per: between two units.
        abbreviations: as written, with their dot.
        until: between the ends of a range.
        one: "one" before a masculine noun, before a feminine one, and alone.
        hours: after the hour of the clock with minutes, and without.
        minute_joint: between hour and minutes.
        first: the first of a month.
        minus: before a number.
        squared: second and third power of a unit, masculine singular.
        raised: second and third power of anything else.
        half: 1/2.
        parts: a third and a quarter; smaller parts are ordinals.
        ranked: up to this number, kings and centuries have ordinals.
        ordinals: what is written after the digits of one, the masculine first.
        version: v1.2.3.
        hashtag: before the words of one.
    """

    language: str
    comma: str
    address: dict[str, str]
    months: tuple[str, ...]
    day_of: tuple[str, str]
    signs: dict[str, str]
    currencies: dict[str, tuple[str, str, str, str]]
    joint: str
    of: str
    units: dict[str, tuple[str, str]]
    per: str
    abbreviations: dict[str, str]
    until: str
    one: tuple[str, str, str]
    hours: tuple[str, str]
    minute_joint: str
    first: str
    minus: str
    squared: tuple[str, str]
    raised: tuple[str, str]
    half: str
    parts: tuple[str, str]
    ranked: int
    ordinals: tuple[str, ...]
    version: str
    hashtag: str


def _signs(names: str) -> dict[str, str]:
    signs = [
        "+",
        "=",
        "%",
        "‰",
        "&",
        "@",
        "°",
        "<",
        ">",
        "×",
        "÷",
        "±",
        "≈",
        "≤",
        "≥",
        "≠",
        "√",
        "∞",
        "→",
        "§",
        "©",
        "/",
        "#",
        "$",
        "£",
        "€",
        "¥",
        "\\",
        "π",
        "^",
    ]
    return dict(zip(signs, names.split("|"), strict=True))


def _address(names: str) -> dict[str, str]:
    return dict(zip("./@-_:?=&#%+~", names.split("|"), strict=True))


def _units(names: str) -> dict[str, tuple[str, str]]:
    """`km:kilómetro,kilómetros` for each; several are one and an s if they are not given."""
    units: dict[str, tuple[str, str]] = {}
    for entry in names.replace("\n", "|").split("|"):
        if entry.strip():
            signs, _, name = entry.strip().partition(":")
            one, _, many = name.partition(",")
            units |= dict.fromkeys(signs.split(), (one, many or one + "s"))
    return units


def _short(names: str) -> dict[str, str]:
    pairs = (entry.strip().split(":") for entry in names.replace("\n", "|").split("|"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


SPANISH = Tongue(
    language="es",
    comma="coma",
    address=_address(
        "punto|barra|arroba|guion|guion bajo|dos puntos|interrogación|igual|y|almohadilla|"
        "por ciento|más|tilde"
    ),
    months=tuple(
        [
            "enero",
            "febrero",
            "marzo",
            "abril",
            "mayo",
            "junio",
            "julio",
            "agosto",
            "septiembre",
            "octubre",
            "noviembre",
            "diciembre",
        ]
    ),
    day_of=(" de ", " de "),
    signs=_signs(
        "más|igual a|por ciento|por mil|y|arroba|grados|menor que|mayor que|por|dividido por|"
        "más o menos|aproximadamente|menor o igual que|mayor o igual que|distinto de|"
        "raíz cuadrada de|infinito|a|sección|copyright|barra|número|dólares|libras|euros|yenes|"
        "barra inversa|pi|elevado a"
    ),
    currencies={
        "€": ("euro", "euros", "céntimo", "céntimos"),
        "$": ("dólar", "dólares", "centavo", "centavos"),
        "£": ("libra", "libras", "penique", "peniques"),
        "¥": ("yen", "yenes", "", ""),
        "MXN": ("peso", "pesos", "centavo", "centavos"),
    },
    joint=" con ",
    of="de ",
    units=_units(
        """km:kilómetro|m:metro|cm:centímetro|mm:milímetro|kg:kilogramo|g:gramo|mg:miligramo
        l L:litro|ml mL:mililitro|s:segundo|ms:milisegundo|min:minuto|h:hora|MB:megabyte
        GB:gigabyte|TB:terabyte|KB kB:kilobyte|GHz:gigahercio|MHz:megahercio|kHz:kilohercio
        Hz:hercio|W:vatio|kW:kilovatio|V:voltio|kWh:kilovatio hora,kilovatios hora
        ha:hectárea|t:tonelada|°C ºC:grado Celsius,grados Celsius
        °F ºF:grado Fahrenheit,grados Fahrenheit|°:grado|%:por ciento,por ciento
        Mbps:megabit por segundo,megabits por segundo|px:píxel,píxeles"""
    ),
    per=" por ",
    abbreviations=_short(
        """Sr.:señor|Sra.:señora|Srta.:señorita|Sres.:señores|Dr.:doctor|Dra.:doctora|D.:don
        Dña.:doña|Ud.:usted|Uds.:ustedes|Vd.:usted|Prof.:profesor|Profa.:profesora|etc.:etcétera
        pág.:página|págs.:páginas|núm.:número|n.º:número|nº:número|N.º:número|Nº:número|p. ej.:por ejemplo
        p.ej.:por ejemplo|EE. UU.:Estados Unidos|EE.UU.:Estados Unidos|Av.:avenida|Avda.:avenida|C/:calle
        art.:artículo|cap.:capítulo|vol.:volumen|tel.:teléfono|aprox.:aproximadamente|Sto.:santo|Sta.:santa
        a. C.:antes de Cristo|d. C.:después de Cristo|a.m.:a eme|p.m.:pe eme"""
    ),
    until=" a ",
    one=("un", "una", "uno"),
    hours=("", " en punto"),
    minute_joint=" y ",
    first="uno",
    minus="menos ",
    squared=("cuadrado", "cúbico"),
    raised=("al cuadrado", "al cubo"),
    half="medio",
    parts=("tercio", "cuarto"),
    ranked=10,
    ordinals=("º", "er", "ª"),
    version="versión",
    hashtag="hashtag",
)

FRENCH = Tongue(
    language="fr-fr",
    comma="virgule",
    address=_address(
        "point|slash|arobase|tiret|tiret bas|deux points|point d'interrogation|égale|et|dièse|"
        "pour cent|plus|tilde"
    ),
    months=tuple(
        [
            "janvier",
            "février",
            "mars",
            "avril",
            "mai",
            "juin",
            "juillet",
            "août",
            "septembre",
            "octobre",
            "novembre",
            "décembre",
        ]
    ),
    day_of=(" ", " "),
    signs=_signs(
        "plus|égale|pour cent|pour mille|et|arobase|degrés|inférieur à|supérieur à|fois|"
        "divisé par|plus ou moins|environ|inférieur ou égal à|supérieur ou égal à|différent de|"
        "racine carrée de|infini|vers|paragraphe|copyright|slash|numéro|dollars|livres|euros|yens|"
        "antislash|pi|puissance"
    ),
    currencies={
        "€": ("euro", "euros", "centime", "centimes"),
        "$": ("dollar", "dollars", "cent", "cents"),
        "£": ("livre", "livres", "penny", "pence"),
        "¥": ("yen", "yens", "", ""),
        "CHF": ("franc suisse", "francs suisses", "centime", "centimes"),
    },
    joint=" et ",
    of="d'",
    units=_units(
        """km:kilomètre|m:mètre|cm:centimètre|mm:millimètre|kg:kilogramme|g:gramme|mg:milligramme
        l L:litre|ml mL:millilitre|cl:centilitre|s:seconde|ms:milliseconde|min mn:minute|h:heure
        Mo MB:mégaoctet|Go GB:gigaoctet|To TB:téraoctet|Ko ko KB kB:kilooctet|GHz:gigahertz,gigahertz
        MHz:mégahertz,mégahertz|kHz:kilohertz,kilohertz|Hz:hertz,hertz|W:watt|kW:kilowatt|V:volt
        kWh:kilowattheure|ha:hectare|t:tonne|°C ºC:degré Celsius,degrés Celsius
        °F ºF:degré Fahrenheit,degrés Fahrenheit|°:degré|%:pour cent,pour cent
        Mbps:mégabit par seconde,mégabits par seconde|px:pixel"""
    ),
    per=" par ",
    abbreviations=_short(
        """M.:monsieur|MM.:messieurs|Mme:madame|Mmes:mesdames|Mlle:mademoiselle|Mlles:mesdemoiselles
        Dr:docteur|Dr.:docteur|Pr:professeur|Me:maître|Mgr:monseigneur|St:saint|Ste:sainte|etc.:et cetera
        p. ex.:par exemple|p.ex.:par exemple|c.-à-d.:c'est-à-dire|n°:numéro|N°:numéro|nº:numéro|Nº:numéro
        av.:avenue|bd.:boulevard|Bd:boulevard|art.:article|chap.:chapitre|vol.:volume|tél.:téléphone
        env.:environ|av. J.-C.:avant Jésus-Christ|apr. J.-C.:après Jésus-Christ|p.:page|pp.:pages"""
    ),
    until=" à ",
    one=("un", "une", "un"),
    hours=(" heures", " heures"),
    minute_joint=" ",
    first="premier",
    minus="moins ",
    squared=("carré", "cube"),
    raised=("au carré", "au cube"),
    half="un demi",
    parts=("tiers", "quart"),
    ranked=1,
    ordinals=("er", "e", "ème", "ième", "nd", "re", "ère", "nde"),
    version="version",
    hashtag="hashtag",
)

ITALIAN = Tongue(
    language="it",
    comma="virgola",
    address=_address(
        "punto|barra|chiocciola|trattino|trattino basso|due punti|punto interrogativo|uguale|e|"
        "cancelletto|per cento|più|tilde"
    ),
    months=tuple(
        [
            "gennaio",
            "febbraio",
            "marzo",
            "aprile",
            "maggio",
            "giugno",
            "luglio",
            "agosto",
            "settembre",
            "ottobre",
            "novembre",
            "dicembre",
        ]
    ),
    day_of=(" ", " "),
    signs=_signs(
        "più|uguale a|per cento|per mille|e|chiocciola|gradi|minore di|maggiore di|per|diviso|"
        "più o meno|circa|minore o uguale a|maggiore o uguale a|diverso da|radice quadrata di|"
        "infinito|a|sezione|copyright|barra|numero|dollari|sterline|euro|yen|barra inversa|pi greco|elevato a"
    ),
    currencies={
        "€": ("euro", "euro", "centesimo", "centesimi"),
        "$": ("dollaro", "dollari", "centesimo", "centesimi"),
        "£": ("sterlina", "sterline", "penny", "pence"),
        "¥": ("yen", "yen", "", ""),
        "CHF": ("franco svizzero", "franchi svizzeri", "centesimo", "centesimi"),
    },
    joint=" e ",
    of="di ",
    units=_units(
        """km:chilometro,chilometri|m:metro,metri|cm:centimetro,centimetri|mm:millimetro,millimetri
        kg:chilogrammo,chilogrammi|g:grammo,grammi|mg:milligrammo,milligrammi|l L:litro,litri
        ml mL:millilitro,millilitri|s:secondo,secondi|ms:millisecondo,millisecondi|min:minuto,minuti
        h:ora,ore|MB:megabyte,megabyte|GB:gigabyte,gigabyte|TB:terabyte,terabyte|KB kB:kilobyte,kilobyte
        GHz:gigahertz,gigahertz|MHz:megahertz,megahertz|kHz:chilohertz,chilohertz|Hz:hertz,hertz
        W:watt,watt|kW:chilowatt,chilowatt|V:volt,volt|kWh:chilowattora,chilowattora|ha:ettaro,ettari
        t:tonnellata,tonnellate|°C ºC:grado Celsius,gradi Celsius
        °F ºF:grado Fahrenheit,gradi Fahrenheit|°:grado,gradi|%:per cento,per cento
        Mbps:megabit al secondo,megabit al secondo|px:pixel,pixel"""
    ),
    per=" per ",
    abbreviations=_short(
        """Sig.:signor|Sig.ra:signora|Sig.na:signorina|Sigg.:signori|Dott.:dottor|Dott.ssa:dottoressa
        Dr.:dottor|Prof.:professor|Prof.ssa:professoressa|Avv.:avvocato|Ing.:ingegner|Arch.:architetto
        ecc.:eccetera|etc.:eccetera|p. es.:per esempio|p.es.:per esempio|ad es.:ad esempio|pag.:pagina
        pagg.:pagine|n.:numero|n°:numero|N°:numero|nº:numero|art.:articolo|cap.:capitolo|vol.:volume
        tel.:telefono|a.C.:avanti Cristo|d.C.:dopo Cristo|S.:san|V.le:viale|P.za:piazza"""
    ),
    until=" a ",
    one=("un", "una", "uno"),
    hours=("", ""),
    minute_joint=" e ",
    first="primo",
    minus="meno ",
    squared=("quadrato", "cubo"),
    raised=("al quadrato", "al cubo"),
    half="mezzo",
    parts=("terzo", "quarto"),
    ranked=3999,
    ordinals=("º", "ª"),
    version="versione",
    hashtag="hashtag",
)

PORTUGUESE = Tongue(
    language="pt-br",
    comma="vírgula",
    address=_address(
        "ponto|barra|arroba|hífen|sublinhado|dois pontos|interrogação|igual|e|cerquilha|por cento|"
        "mais|til"
    ),
    months=tuple(
        [
            "janeiro",
            "fevereiro",
            "março",
            "abril",
            "maio",
            "junho",
            "julho",
            "agosto",
            "setembro",
            "outubro",
            "novembro",
            "dezembro",
        ]
    ),
    day_of=(" de ", " de "),
    signs=_signs(
        "mais|igual a|por cento|por mil|e|arroba|graus|menor que|maior que|vezes|dividido por|"
        "mais ou menos|aproximadamente|menor ou igual a|maior ou igual a|diferente de|"
        "raiz quadrada de|infinito|para|seção|copyright|barra|número|dólares|libras|euros|ienes|"
        "barra invertida|pi|elevado a"
    ),
    currencies={
        "R$": ("real", "reais", "centavo", "centavos"),
        "US$": ("dólar", "dólares", "centavo", "centavos"),
        "BRL": ("real", "reais", "centavo", "centavos"),
        "€": ("euro", "euros", "centavo", "centavos"),
        "$": ("dólar", "dólares", "centavo", "centavos"),
        "£": ("libra", "libras", "pêni", "pence"),
        "¥": ("iene", "ienes", "", ""),
    },
    joint=" e ",
    of="de ",
    units=_units(
        """km:quilômetro|m:metro|cm:centímetro|mm:milímetro|kg:quilograma|g:grama|mg:miligrama
        l L:litro|ml mL:mililitro|s:segundo|ms:milissegundo|min:minuto|h:hora|MB:megabyte
        GB:gigabyte|TB:terabyte|KB kB:kilobyte|GHz:gigahertz,gigahertz|MHz:megahertz,megahertz
        kHz:quilohertz,quilohertz|Hz:hertz,hertz|W:watt|kW:quilowatt|V:volt
        kWh:quilowatt hora,quilowatts hora|ha:hectare|t:tonelada|°C ºC:grau Celsius,graus Celsius
        °F ºF:grau Fahrenheit,graus Fahrenheit|°:grau|%:por cento,por cento
        Mbps:megabit por segundo,megabits por segundo|px:pixel,pixels"""
    ),
    per=" por ",
    abbreviations=_short(
        """Sr.:senhor|Sra.:senhora|Srta.:senhorita|Srs.:senhores|Dr.:doutor|Dra.:doutora|Prof.:professor
        Profa.:professora|etc.:et cetera|pág.:página|págs.:páginas|p. ex.:por exemplo|p.ex.:por exemplo
        Av.:avenida|R.:rua|nº:número|Nº:número|n.º:número|N.º:número|n°:número|art.:artigo|cap.:capítulo|vol.:volume
        tel.:telefone|aprox.:aproximadamente|Sto.:santo|Sta.:santa|Exmo.:excelentíssimo|V. Exa.:vossa excelência
        a.C.:antes de Cristo|d.C.:depois de Cristo|EUA:Estados Unidos"""
    ),
    until=" a ",
    one=("um", "uma", "um"),
    hours=(" horas", " horas"),
    minute_joint=" e ",
    first="primeiro",
    minus="menos ",
    squared=("quadrado", "cúbico"),
    raised=("ao quadrado", "ao cubo"),
    half="meio",
    parts=("terço", "quarto"),
    ranked=10,
    ordinals=("º", "ª"),
    version="versão",
    hashtag="hashtag",
)

TONGUES = {tongue.language: tongue for tongue in (SPANISH, FRENCH, ITALIAN, PORTUGUESE)}
