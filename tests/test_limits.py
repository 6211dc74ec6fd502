"""Types, choices and limits of fields."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil import InputError
from sdil.limits import (
    Above,
    AtLeast,
    Between,
    Count,
    CountOrNone,
    Discount,
    PartialShare,
    Positive,
    Score,
    Share,
    Some,
    Weight,
    allowed,
    check_fields,
    check_value,
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


ENDS = (-math.inf, -1, 0, 0.5, 2, math.inf)


@pytest.mark.parametrize("low", ENDS)
@pytest.mark.parametrize("high", ENDS)
@pytest.mark.parametrize("opened", [(False, False), (True, False), (False, True), (True, True)])
def test_every_limit_holds_what_lies_between_its_ends(low, high, opened):
    limit = Between(low, high, *opened)
    for value in (*ENDS, -2, -0.9, 0.1, 1.9, 3):
        above = value >= low and not (opened[0] and value == low)
        below = value <= high and not (opened[1] and value == high)
        assert limit.holds(value) is (above and below)


@pytest.mark.parametrize(
    ("limit", "text", "short"),
    [
        (Between(0, 1, open_low=True), "above 0 and at most 1", "(0,1]"),
        (Between(-1, 1), "between -1 and 1", "-1..1"),
        (Between(0.5, 2, open_low=True, open_high=True), "above 0.5 and under 2", "(0.5,2)"),
        (Between(), "at least -inf", ">=-inf"),
        (Between(3, open_high=True), "at least 3", ">=3"),
    ],
)
def test_other_limits_in_words(limit, text, short):
    assert (str(limit), limit.short) == (text, short)


@pytest.mark.parametrize(
    ("hint", "words", "good", "bad"),
    [
        (CountOrNone, "a whole number, at least 0", [0, 1], [-1, 0.0, False]),
        (Weight, "a number, at least 0", [0, 0.0, 0.1, 7], [-1e-9, -1, True]),
        (Positive, "a number, above 0", [1e-300, 1], [0, 0.0, -1]),
        (Score, "a number, between -1 and 1", [-1, 1, 0], [-1.001, 1.001]),
        (PartialShare, "a number, above 0 and under 1", [0.5], [0, 1]),
        (Discount, "a number, at least 0 and under 1", [0], [1]),
        (str, "a text", ["", "a"], [1, None, b"a"]),
        (bool, "true or false", [True], [1]),
        (int, "a whole number", [-5, 0, 10**400], [True, 1.0, "1", None]),
        (float, "a number", [1, 1.5, -1], [True, math.inf, -math.inf, math.nan, 10**400, "1"]),
        (Literal["a"], '"a"', ["a"], ["b", "", 1]),
        (Literal["a", "b"], 'one of "a", "b"', ["a", "b"], ["ab"]),
        (Literal[1, 2], 'one of "1", "2"', [1, 2], [True, 1.0, "1"]),
        (Literal["none"] | Count, '"none" or a whole number, at least 1', ["none", 1], [0, ""]),
        (
            Union[Count, Literal["a"]],  # noqa: UP007  # another kind of union
            'a whole number, at least 1 or "a"',
            ["a", 3],
            ["b"],
        ),
        (tuple[Count, ...], "a tuple, each a whole number, at least 1", [(), (1, 2)], [(0,), [1]]),
        (tuple[Count, ...], "a tuple, each a whole number, at least 1", [(3,)], [(1, 0), 1, "1"]),
        (
            Annotated[str, Some("x", "y")],
            'some of "x+y"',
            ["x", "y+x"],
            ["x+x", "x+y+x", "xy", "+"],
        ),
        (Annotated[int, "a note", AtLeast(2)], "a whole number, at least 2", [2], [1]),
        (Annotated[int, AtLeast(2), Between(0, 4)], None, [2, 4], [1, 5]),
    ],
)
def test_every_kind_of_annotation_in_words_and_in_values(hint, words, good, bad):
    if words is not None:
        assert allowed(hint) == words
    for value in good:
        assert fits(value, hint) is True
        check_value(value, hint, "it")
    for value in bad:
        assert fits(value, hint) is False
        with pytest.raises(InputError, match=r"^it must be .*, not "):
            check_value(value, hint, "it")


def test_two_limits_are_both_said():
    hint = Annotated[int, AtLeast(2), Between(0, 4)]
    assert allowed(hint) == "a whole number, at least 2, between 0 and 4"


def test_the_first_field_that_is_wrong_is_named_and_all_are_looked_at():
    @dataclass(frozen=True)
    class Settings:
        one: Count = 1
        two: Share = 0.5
        three: bool = True

    for wrong, name in (({"one": 0}, "one"), ({"two": 2}, "two"), ({"three": 1}, "three")):
        with pytest.raises(InputError, match=f"^it: {name} must be"):
            check_fields(Settings(**wrong), "it")
    with pytest.raises(InputError, match=r"^it: two must be"):
        check_fields(Settings(two=-1, three=0), "it")
