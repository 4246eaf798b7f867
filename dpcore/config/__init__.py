"""How a config is read and checked: YAML, sections, durations, the clock, and errors in a sentence.

``section`` has the base class of every section, types of numbers, and the errors of validators;
``validation`` turns plain values into a section, or one of several, or one ``ConfigError``;
``section_examples`` writes examples of sections.
``clock``, ``key``, ``privacy`` and ``schema`` are the sections of every plan;
``durations`` and ``ticks`` read lengths of time, ``yaml`` reads text; ``one_shot`` is about configs
without a clock, ``lookup`` about joins with a public table.
"""

__all__ = [
    "clock",
    "durations",
    "key",
    "lookup",
    "one_shot",
    "privacy",
    "schema",
    "section",
    "section_examples",
    "ticks",
    "validation",
    "yaml",
]
