"""Time zones by Windows' names, as Azure's shutdown schedules take them."""

from typing import Final

_WHOLE: Final = ("UTC", "Russia Time Zone", "(Mexico)")
"""Parts of names that do not end in "Standard Time"."""
_SHORT: Final = """
    Afghanistan | Alaskan | Aleutian | Altai | Arab | Arabian | Arabic | Argentina | Astrakhan
    | Atlantic | AUS Central | Aus Central W. | AUS Eastern | Azerbaijan | Azores | Bahia |
    Bangladesh | Belarus | Bougainville | Canada Central | Cape Verde | Caucasus | Cen.
    Australia | Central America | Central Asia | Central Brazilian | Central Europe | Central
    European | Central Pacific | Central | Central Standard Time (Mexico) | Chatham Islands |
    China | Cuba | Dateline | E. Africa | E. Australia | E. Europe | E. South America | Easter
    Island | Eastern | Eastern Standard Time (Mexico) | Egypt | Ekaterinburg | Fiji | FLE |
    Georgian | GMT | Greenland | Greenwich | GTB | Haiti | Hawaiian | India | Iran | Israel |
    Jordan | Kaliningrad | Korea | Libya | Line Islands | Lord Howe | Magadan | Magallanes |
    Marquesas | Mauritius | Middle East | Montevideo | Morocco | Mountain | Mountain Standard
    Time (Mexico) | Myanmar | N. Central Asia | Namibia | Nepal | New Zealand | Newfoundland |
    Norfolk | North Asia East | North Asia | North Korea | Omsk | Pacific SA | Pacific |
    Pacific Standard Time (Mexico) | Pakistan | Paraguay | Qyzylorda | Romance | Russia Time
    Zone 10 | Russia Time Zone 11 | Russia Time Zone 3 | Russian | SA Eastern | SA Pacific |
    SA Western | Saint Pierre | Sakhalin | Samoa | Sao Tome | Saratov | SE Asia | Singapore |
    South Africa | South Sudan | Sri Lanka | Sudan | Syria | Taipei | Tasmania | Tocantins |
    Tokyo | Tomsk | Tonga | Transbaikal | Turkey | Turks And Caicos | Ulaanbaatar | US Eastern
    | US Mountain | UTC | UTC+12 | UTC+13 | UTC-02 | UTC-08 | UTC-09 | UTC-11 | Venezuela |
    Vladivostok | Volgograd | W. Australia | W. Central Africa | W. Europe | W. Mongolia |
    West Asia | West Bank | West Pacific | Yakutsk | Yukon
"""

NAMES: Final = frozenset(
    name if any(part in name for part in _WHOLE) else f"{name} Standard Time"
    for name in (" ".join(short.split()) for short in _SHORT.split("|"))
)
"""All of them (Unicode CLDR, windowsZones.xml)."""
