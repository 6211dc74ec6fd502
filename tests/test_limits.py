"""Types, choices and limits of fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil import InputError
from sdil.limits import (
    Above,
    AtLeast,
    Between,
    Count,
    Discount,
    PartialShare,
    Share,
    Some,
    allowed,
    check_fields,
    fits,
)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Count, [1, 10**9], [0, -1, 1.0, 2.5, True, "1", None, math.nan]),
        (Share, [0, 1, 0.5, 1.0], [-0.1, 1.1, math.nan, math.inf, True, "half"]),
        (PartialShare, [0.1, 0.999], [0, 1, 0.0, 1.0]),
        (Discount, [0, 0.99], [1, 1.0, -0.01]),
        (Annotated[float, Above(0)], [1e-9, 3], [0, -1, math.inf, 10**400]),
        (bool, [True, False], [0, 1, "yes", None]),
        (Literal["a", "b"], ["a", "b"], ["c", "", 1, None]),
        (Annotated[str, Some("x", "y")], ["x", "y", "x+y", "y+x"], ["", "z", "x+x", "x+", 3]),
    ],
)
def test_what_fits(hint, good, bad):
    assert all(fits(value, hint) for value in good)
    assert not any(fits(value, hint) for value in bad)


@pytest.mark.parametrize(
    ("limit", "text", "short"),
    [
        (AtLeast(1), "at least 1", ">=1"),
        (Above(0), "above 0", ">0"),
        (Between(0, 1), "between 0 and 1", "0..1"),
        (Between(0, 1, open_high=True), "at least 0 and under 1", "[0,1)"),
        (Between(0, 1, open_low=True, open_high=True), "above 0 and under 1", "(0,1)"),
    ],
)
def test_limits_in_words(limit, text, short):
    assert str(limit) == text
    assert limit.short == short


def test_a_complaint_names_the_field_and_what_it_may_be():
    @dataclass(frozen=True)
    class Settings:
        size: Count = 3
        form: Literal["log", "prob"] = "log"

    check_fields(Settings(), "it")
    with pytest.raises(InputError, match="it: size must be a whole number, at least 1, not 0"):
        check_fields(Settings(size=0), "it")
    with pytest.raises(InputError, match='it: form must be one of "log", "prob", not \'nope\''):
        check_fields(Settings(form="nope"), "it")
    assert allowed(Share) == "a number, between 0 and 1"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_share_is_exactly_a_number_from_0_to_1(value):
    assert fits(value, Share) == (0.0 <= value <= 1.0)
