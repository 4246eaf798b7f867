"""Names of scopes: which are open, and which look alike."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from weir.dpcore.errors import ConfigError

_LOOK_ALIKE: Final = str.maketrans(
    # Cyrillic capitals and small letters
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u0455\u0456\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445"
    # Greek capitals and small letters
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7"
    # Latin alpha, script g and dotless i; digits and a bar
    "\u0251\u0261\u013101|",
    "ABESIJKMHOPCTYX" + "aesijkmhopctyx" + "ABEZHIKMNOPTYX" + "aikvopux" + "agioll",
)
"""Letters of other alphabets, and digits, that are drawn like a Latin letter."""


def skeleton(name: str) -> str:
    """What is left of a name once look-alike letters, case, accents, spaces and punctuation no
    longer count."""
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKE).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def look_alikes(name: str, known: Iterable[str]) -> list[str]:
    """Other names that look like this one."""
    return [one for one in known if one != name and skeleton(one) == skeleton(name)]


def refuse_unknown(name: str, known: Sequence[str]) -> None:
    """Refuses a scope that nobody has opened, in a ledger that has some.

    Raises:
      ConfigError: names those that are nearest, and the command that opens one.
    """
    alike = look_alikes(name, known)
    near = alike or difflib.get_close_matches(name, known, n=3, cutoff=0.5) or list(known)[:3]
    shown = ", ".join(map(repr, near))
    what = f"looks like {shown} and is not the same name" if alike else f"nearest: {shown}"
    raise ConfigError(
        "ledger.scope",
        name,
        f"{_spelt(name)}is not open in this ledger, and would have a budget of its own; {what}. "
        "Write the scope that these people have; for other people, weir ledger open CONFIG opens "
        "one.",
    )


def refuse_alike(name: str, known: Iterable[str]) -> None:
    """Refuses to open a scope whose name looks like that of another.

    Raises:
      ConfigError: names it.
    """
    for other in look_alikes(name, known):
        raise ConfigError(
            "ledger.scope",
            name,
            f"{_spelt(name)}looks like the scope {other!r}, which is open. Write that name, or one "
            "that differs from it in more than case, punctuation and look-alike letters.",
        )


def _spelt(name: str) -> str:
    """A name by its letters' numbers, where it could be read as another."""
    return "" if name.isascii() else f"({ascii(name)}) "


__all__ = ["look_alikes", "refuse_alike", "refuse_unknown", "skeleton"]
