"""Tables that the facts are built with: English names of codes, and corrections of the sources.

Only ``build.py`` reads this module. Names of currencies and languages are those of ISO 4217 and
ISO 639 in everyday English. A correction stands here when two sources contradict each other and it
is known which is right, or when neither can be trusted: then the fact is dropped.
"""

from __future__ import annotations


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(";"))
    return {code: name for code, _, name in pairs}


TERRITORIES = _codes(
    "AI AN AQ AS AW AX BL BM BQ BV CC CK CS CW CX EH FK FO GF GG GI GL GP GS GU HK HM IM IO JE KY MF MO MP "
    "MQ MS NC NF NU PF PM PN PR RE SH SJ SX TC TF TK UM VG VI WF YT"
)
"""Codes of dependencies and of countries that are no more: not countries of this atlas."""

COUNTRY_NAMES = {
    "CV": "Cape Verde",
    "GE": "Georgia",
    "NL": "Netherlands",
    "PS": "Palestine",
    "TL": "East Timor",
    "VA": "Vatican City",
}

ARTICLE = _codes("AE BS CD CF CG DO GB GM KM MH MV NL PH SB SC US")
"""Codes of countries whose name takes "the" inside a sentence."""

ALIASES = {
    "AE": ["UAE"],
    "BA": ["Bosnia"],
    "CD": ["DR Congo", "Congo"],
    "CG": ["Congo-Brazzaville", "Congo"],
    "CI": ["Côte d'Ivoire"],
    "CV": ["Cabo Verde"],
    "CZ": ["Czech Republic"],
    "GB": ["UK", "Great Britain", "Britain", "England", "Scotland"],
    "IE": ["Republic of Ireland"],
    "KP": ["Korea"],
    "KR": ["Korea", "Republic of Korea"],
    "LA": ["Lao"],
    "MK": ["Macedonia"],
    "MM": ["Burma"],
    "NL": ["Holland"],
    "PS": ["State of Palestine"],
    "RU": ["Russian Federation"],
    "SZ": ["Swaziland"],
    "TL": ["Timor-Leste"],
    "TR": ["Türkiye"],
    "US": ["USA", "United States of America", "America"],
    "VA": ["Vatican", "Holy See"],
}
"""Other titles under which a country is found. A title shared by two countries is ambiguous."""

CAPITALS = {
    "BI": "Gitega",
    "KZ": "Astana",
    "MM": "Nay Pyi Taw",
    "MN": "Ulan Bator",
    "PW": "Ngerulmud",
}
"""Capitals where the sources disagree or use an older name."""

NO_CAPITAL = _codes("BO GQ IL LK NR PS SZ ZA")
"""Countries with several capitals, a contested one, or none by law: the fact is left out."""

NO_CURRENCY = _codes("BG BT CU LS NA PA ZW")
"""Countries where two currencies are legal tender, or that are changing theirs."""

EXTRA_BORDERS = [("BW", "ZM"), ("EG", "PS"), ("IL", "PS"), ("JO", "PS")]
"""Borders that only one source knows and that do exist."""

REGIONS = {"TW": "Eastern Asia", "XK": "Southern Europe", "PS": "Western Asia"}
"""Regions of the countries for which the source has none."""

REGION_NAMES = {
    "Australia and New Zealand": "Oceania",
    "Melanesia": "Oceania",
    "Micronesia": "Oceania",
    "Middle Africa": "Central Africa",
    "Polynesia": "Oceania",
    "South-eastern Asia": "Southeast Asia",
}
"""Everyday names of regions; "Micronesia" alone would be a country's title."""

SKIPPED_CITIES = frozenset(
    [
        "Agege",
        "Bao'an",
        "Brooklyn",
        "Eisenzicken",
        "Kallakurichi",
        "Khalifah A City",
        "Klinteby Frihed",
        "Manhattan",
        "Queens",
        "Rasapūdipalem",
        "The Bronx",
    ]
)
"""Entries that are districts, or whose population is not that of a town."""

CURRENCIES = _table(
    "AED=UAE dirham;AFN=Afghan afghani;ALL=Albanian lek;AMD=Armenian dram;AOA=Angolan kwanza;"
    "ARS=Argentine peso;AUD=Australian dollar;AZN=Azerbaijani manat;BAM=convertible mark;"
    "BBD=Barbadian dollar;BDT=Bangladeshi taka;BHD=Bahraini dinar;BIF=Burundian franc;"
    "BND=Brunei dollar;BOB=Bolivian boliviano;BRL=Brazilian real;BSD=Bahamian dollar;"
    "BWP=Botswana pula;BYN=Belarusian ruble;BZD=Belize dollar;CAD=Canadian dollar;"
    "CDF=Congolese franc;CHF=Swiss franc;CLP=Chilean peso;CNY=Chinese yuan;COP=Colombian peso;"
    "CRC=Costa Rican colon;CVE=Cape Verdean escudo;CZK=Czech koruna;DJF=Djiboutian franc;"
    "DKK=Danish krone;DOP=Dominican peso;DZD=Algerian dinar;EGP=Egyptian pound;ERN=Eritrean nakfa;"
    "ETB=Ethiopian birr;EUR=euro;FJD=Fijian dollar;GBP=pound sterling;GEL=Georgian lari;"
    "GHS=Ghanaian cedi;GMD=Gambian dalasi;GNF=Guinean franc;GTQ=Guatemalan quetzal;"
    "GYD=Guyanese dollar;HNL=Honduran lempira;HTG=Haitian gourde;HUF=Hungarian forint;"
    "IDR=Indonesian rupiah;ILS=Israeli shekel;INR=Indian rupee;IQD=Iraqi dinar;IRR=Iranian rial;"
    "ISK=Icelandic krona;JMD=Jamaican dollar;JOD=Jordanian dinar;JPY=Japanese yen;"
    "KES=Kenyan shilling;KGS=Kyrgyz som;KHR=Cambodian riel;KMF=Comorian franc;KPW=North Korean won;"
    "KRW=South Korean won;KWD=Kuwaiti dinar;KZT=Kazakh tenge;LAK=Lao kip;LBP=Lebanese pound;"
    "LKR=Sri Lankan rupee;LRD=Liberian dollar;LYD=Libyan dinar;MAD=Moroccan dirham;"
    "MDL=Moldovan leu;MGA=Malagasy ariary;MKD=Macedonian denar;MMK=Myanmar kyat;"
    "MNT=Mongolian tugrik;MRU=Mauritanian ouguiya;MUR=Mauritian rupee;MVR=Maldivian rufiyaa;"
    "MWK=Malawian kwacha;MXN=Mexican peso;MYR=Malaysian ringgit;MZN=Mozambican metical;"
    "NGN=Nigerian naira;NIO=Nicaraguan cordoba;NOK=Norwegian krone;NPR=Nepalese rupee;"
    "NZD=New Zealand dollar;OMR=Omani rial;PEN=Peruvian sol;PGK=Papua New Guinean kina;"
    "PHP=Philippine peso;PKR=Pakistani rupee;PLN=Polish zloty;PYG=Paraguayan guarani;"
    "QAR=Qatari riyal;RON=Romanian leu;RSD=Serbian dinar;RUB=Russian ruble;RWF=Rwandan franc;"
    "SAR=Saudi riyal;SBD=Solomon Islands dollar;SCR=Seychellois rupee;SDG=Sudanese pound;"
    "SEK=Swedish krona;SGD=Singapore dollar;SLE=Sierra Leonean leone;SOS=Somali shilling;"
    "SRD=Surinamese dollar;SSP=South Sudanese pound;STN=Sao Tomean dobra;SYP=Syrian pound;"
    "SZL=Swazi lilangeni;THB=Thai baht;TJS=Tajik somoni;TMT=Turkmen manat;TND=Tunisian dinar;"
    "TOP=Tongan paanga;TRY=Turkish lira;TTD=Trinidad and Tobago dollar;TWD=New Taiwan dollar;"
    "TZS=Tanzanian shilling;UAH=Ukrainian hryvnia;UGX=Ugandan shilling;USD=US dollar;"
    "UYU=Uruguayan peso;UZS=Uzbek som;VES=Venezuelan bolivar;VND=Vietnamese dong;"
    "VUV=Vanuatu vatu;WST=Samoan tala;XAF=Central African CFA franc;XCD=East Caribbean dollar;"
    "XOF=West African CFA franc;YER=Yemeni rial;ZAR=South African rand;ZMW=Zambian kwacha"
)

LANGUAGES = _table(
    "am=Amharic;ar=Arabic;bg=Bulgarian;bn=Bengali;cs=Czech;da=Danish;de=German;dv=Maldivian;"
    "dz=Dzongkha;el=Greek;en=English;es=Spanish;et=Estonian;fa=Persian;fr=French;hr=Croatian;"
    "hu=Hungarian;id=Indonesian;is=Icelandic;it=Italian;ja=Japanese;ka=Georgian;km=Khmer;ko=Korean;"
    "lo=Lao;lt=Lithuanian;lv=Latvian;mk=Macedonian;mn=Mongolian;ms=Malay;my=Burmese;ne=Nepali;"
    "nl=Dutch;no=Norwegian;pl=Polish;pt=Portuguese;ro=Romanian;ru=Russian;sk=Slovak;sl=Slovene;"
    "sq=Albanian;sr=Serbian;sv=Swedish;th=Thai;tr=Turkish;uk=Ukrainian;vi=Vietnamese;zh=Chinese"
)

MAIN_LANGUAGE = {"CZ": "cs", "NO": "no", "RS": "sr", "XK": "sq", "UZ": "", "LB": "", "MY": "ms"}
"""Main languages where the sources name minority languages too; empty: left out."""

PLACES = {"England": "GB", "Scotland": "GB", "Great Britain": "GB"}
"""Places of discovery that are parts of a country of this atlas."""

DISCOVERERS: dict[str, list[str]] = {
    "Al": ["Hans Christian Ørsted"],
    "Ar": ["William Ramsay", "Lord Rayleigh"],
    "As": [],
    "B": ["Humphry Davy", "Joseph Louis Gay-Lussac", "Louis Jacques Thénard"],
    "Ba": ["Humphry Davy"],
    "Br": ["Antoine Jérôme Balard"],
    "Ca": ["Humphry Davy"],
    "Cd": ["Friedrich Stromeyer"],
    "Ce": ["Wilhelm Hisinger", "Jöns Jacob Berzelius", "Martin Heinrich Klaproth"],
    "Cl": ["Carl Wilhelm Scheele"],
    "Co": ["Georg Brandt"],
    "Cr": ["Louis Nicolas Vauquelin"],
    "Cs": ["Gustav Kirchhoff", "Robert Bunsen"],
    "Er": ["Carl Gustaf Mosander"],
    "Eu": ["Eugène Demarçay"],
    "F": ["Henri Moissan"],
    "Fr": ["Marguerite Perey"],
    "Ga": ["Paul-Émile Lecoq de Boisbaudran"],
    "Gd": ["Jean Charles de Marignac"],
    "Ge": ["Clemens Winkler"],
    "H": ["Henry Cavendish"],
    "He": ["William Ramsay", "Per Teodor Cleve", "Nils Abraham Langlet"],
    "Hf": ["Dirk Coster", "George de Hevesy"],
    "I": ["Bernard Courtois"],
    "In": ["Ferdinand Reich", "Hieronymous Theodor Richter"],
    "K": ["Humphry Davy"],
    "Kr": ["William Ramsay", "Morris Travers"],
    "La": ["Carl Gustaf Mosander"],
    "Li": ["Johan August Arfwedson"],
    "Lu": ["Georges Urbain"],
    "Mg": ["Humphry Davy"],
    "Mn": ["Johan Gottlieb Gahn"],
    "Mo": ["Carl Wilhelm Scheele"],
    "N": ["Daniel Rutherford"],
    "Na": ["Humphry Davy"],
    "Nb": ["Charles Hatchett"],
    "Nd": ["Carl Auer von Welsbach"],
    "Ne": ["William Ramsay", "Morris Travers"],
    "Ni": ["Axel Fredrik Cronstedt"],
    "Np": ["Edwin McMillan", "Philip Abelson"],
    "O": ["Carl Wilhelm Scheele", "Joseph Priestley"],
    "Os": ["Smithson Tennant"],
    "P": ["Hennig Brand"],
    "Pd": ["William Hyde Wollaston"],
    "Pm": ["Jacob Marinsky", "Lawrence Glendenin", "Charles Coryell"],
    "Po": ["Marie Curie", "Pierre Curie"],
    "Pr": ["Carl Auer von Welsbach"],
    "Ra": ["Marie Curie", "Pierre Curie"],
    "Rb": ["Robert Bunsen", "Gustav Kirchhoff"],
    "Re": ["Walter Noddack", "Ida Noddack", "Otto Berg"],
    "Rh": ["William Hyde Wollaston"],
    "Ru": ["Karl Ernst Claus"],
    "Sc": ["Lars Fredrik Nilson"],
    "Se": ["Jöns Jacob Berzelius"],
    "Si": ["Jöns Jacob Berzelius"],
    "Sm": ["Paul-Émile Lecoq de Boisbaudran"],
    "Sr": ["Adair Crawford"],
    "Ta": ["Anders Gustaf Ekeberg"],
    "Tb": ["Carl Gustaf Mosander"],
    "Tc": ["Carlo Perrier", "Emilio Segrè"],
    "Te": ["Franz-Joseph Müller von Reichenstein"],
    "Th": ["Jöns Jacob Berzelius"],
    "Ti": ["William Gregor"],
    "Tl": ["William Crookes"],
    "Tm": ["Per Teodor Cleve"],
    "U": ["Martin Heinrich Klaproth"],
    "W": ["Fausto Elhuyar", "Juan José Elhuyar"],
    "Xe": ["William Ramsay", "Morris Travers"],
    "Y": ["Johan Gadolin"],
    "Yb": ["Jean Charles de Marignac"],
    "Zr": ["Martin Heinrich Klaproth"],
    "Ac": ["André-Louis Debierne"],
    "At": ["Dale Corson", "Kenneth MacKenzie", "Emilio Segrè"],
    "Pu": ["Glenn Seaborg", "Edwin McMillan", "Joseph Kennedy", "Arthur Wahl"],
    "Am": ["Glenn Seaborg", "Ralph James", "Leon Morgan", "Albert Ghiorso"],
    "Cm": ["Glenn Seaborg", "Ralph James", "Albert Ghiorso"],
    "Bk": ["Glenn Seaborg", "Stanley Thompson", "Albert Ghiorso"],
    "Cf": ["Glenn Seaborg", "Stanley Thompson", "Albert Ghiorso", "Kenneth Street"],
}
"""Discoverers with their names written out and spelt right; elements not named here have none."""

DISCOVERY_YEARS: dict[str, int | None] = {
    "Be": None,
    "Co": None,
    "Ho": None,
    "Ir": None,
    "Lv": None,
    "Nd": 1885,
    "Os": None,
    "Pt": None,
    "Rh": None,
    "Rn": None,
    "Se": None,
    "Th": None,
    "V": None,
    "Y": None,
}
"""Years that the source has wrong (corrected) or that are told differently elsewhere (left out)."""

NO_PLACE = frozenset(["Ar", "Be", "Ho", "Lv", "Pt", "Rn", "Te", "V", "Y"])
"""Elements whose place of discovery the source has wrong or names by borders of another time."""

BRITISH = {"Aluminum": "Aluminium", "Cesium": "Caesium", "Sulfur": "Sulphur"}
"""Second spellings, which redirect."""
