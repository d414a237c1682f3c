"""Wording shared by tables and sentences: counts with their nouns, and lines that fit a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

WIDTH = 80
"""The line width, in characters, that every terminal has."""


def counted(number: int | np.integer, noun: str) -> str:
    """Return "no chains", "1 chain", "2 chains" and so on."""
    return f"{f'{number:,}' if number else 'no'} {noun}{'' if number == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Return "a", "a and b", "a, b and c" and so on."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def wrapped(sentence: str, indent: str = "    ") -> str:
    """Return a sentence wrapped to the width of a terminal; all lines but the first begin with ``indent``."""
    return textwrap.fill(sentence, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
