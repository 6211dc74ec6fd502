"""What a report says first, in plain words: what was trained, how good, how sure."""

from __future__ import annotations

from typing import Any

WRONG, CHANCE, FAIR, GOOD = 0.45, 0.6, 0.75, 0.9
"""The AUROC under which scores mislead, are chance, often wrong, fairly good."""


def verdict(about: dict[str, Any]) -> list[dict[str, str]]:
    """Sentences as {"tone": "plain" | "good" | "doubt", "text": ...}, most important first."""
    acts = [] if _no_policy(about) else [_acts(about)]
    judges = [] if "step" in (about.get("unknown") or {}) else _judges(about)
    share = [] if about.get("health") else _share(about)
    sentences = [_trained(about), *_health(about), *acts, *_listened(about), *share, *judges]
    sentences += _odd(about)
    warnings = [str(text) for text in about.get("warnings") or []]
    # the AUROC has its sentence already
    told = ("AUROC", "hardly used") if about.get("health") else ("AUROC",)
    sentences += [
        ("doubt", _sentence(text)) for text in warnings if not any(word in text for word in told)
    ]
    return [{"tone": tone, "text": text} for tone, text in sentences]


def _trained(about: dict[str, Any]) -> tuple[str, str]:
    learner = str(about.get("learner") or "The policy").upper()
    clean, noisy = about.get("n_clean"), about.get("n_noisy")
    counts = "demonstrations" if clean is None else f"{clean:,} trusted (clean)"
    if noisy:
        counts += f" and {noisy:,} doubtful (noisy) demonstrations"
    elif clean is not None:
        counts += " demonstrations and no doubtful ones"
    of = f" of {about['task']}" if about.get("task") else ""
    seed = "" if about.get("seed") is None else f", with seed {about['seed']}"
    if _no_policy(about):
        return "plain", f"Steps judged by {about['judge']}, from {counts}{of}{seed}."
    return "plain", f"{learner} learned from {counts}{of}{seed}."


def _health(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Whether the scores mean anything here, as `sdil judge` begins with too."""
    health = about.get("health")
    if not health:
        return []
    first, *others = health["sentences"]
    tone = "good" if health["separates"] == "yes" else "doubt"
    return [
        (tone, _sentence(first)),
        *(
            ("doubt" if text.startswith("skills collapsed") else "plain", _sentence(text))
            for text in others
            if not text.startswith("signals heard")  # it has a sentence with more
        ),
    ]


def _no_policy(about: dict[str, Any]) -> bool:
    """Whether it is a judgement; records of before say nothing of how a policy acts."""
    return "acting" in about and about["acting"] is None


def _listened(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Which kinds of evidence were heard, where there are several."""
    signals, unknown = about.get("signals") or [], about.get("unknown") or {}
    found = []
    for output, begin in _OUTPUTS.items():
        mine = [s for s in signals if s.get("output", "step") == output]
        heard = [s["name"] for s in mine if s["heard"]]
        unheard = [s["name"] for s in mine if not s["heard"]]
        if output in unknown:
            found.append(("doubt", _sentence(str(unknown[output]))))
        elif heard and len(signals) > 1:
            more = f" Not heard: {_and(unheard)}." if unheard else ""
            found.append(("plain", f"{begin} {_and(heard)}.{more}"))
        elif len(mine) > 1:  # records of before do not say what is unknown
            found.append(("doubt", "No kind of evidence rates held-out clean steps above noisy "
                          "ones: these scores may mean nothing."))  # fmt: skip
    return found


_OUTPUTS = {
    "step": "Whether a step is right rests on",
    "episode": "How well an episode went rests on",
}


def _share(about: dict[str, Any]) -> list[tuple[str, str]]:
    """How many of the noisy steps are good, where the judge says."""
    share = about.get("good_share")
    if not share:
        return []
    point, low, high = (f"{share[key]:.0%}" for key in ("point", "low", "high"))
    if share["low"] == share["high"]:
        return [("plain", f"It was told that {point} of the noisy steps are good.")]
    return [("plain", f"An estimated {point} of the noisy steps are good ({low} to {high}).")]


def _odd(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Clean demonstrations that do not look clean."""
    odd = [f"{name}: {why}" for name, why in (about.get("odd") or {}).items()]
    if not odd:
        return []
    more = f"; and {len(odd) - _MOST_ODD} more" if len(odd) > _MOST_ODD else ""
    shown = "; ".join(odd[:_MOST_ODD])
    return [("doubt", _sentence(f"odd clean demonstrations, worth a look: {shown}{more}"))]


_MOST_ODD = 5


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _acts(about: dict[str, Any]) -> tuple[str, str]:
    result = about.get("evaluation")
    if not result or result.get("reward_mean") is None:
        return "plain", "It was not run in an environment: how well it acts is not known here."
    count = f" {result['n_episodes']:,} episodes" if result.get("n_episodes") else " its episodes"
    where = f" of {about['environment']}" if about.get("environment") else ""
    acting = f" (acting: {about['acting']})" if about.get("acting") else ""
    return (
        "plain",
        f"Reward and success are measured over{count}{where}{acting}. The intervals hold for this "
        "one training run: another seed may differ by more.",
    )


def _judges(about: dict[str, Any]) -> list[tuple[str, str]]:
    truth = about.get("truth")
    if not truth or truth.get("auroc") is None:
        return [
            (
                "doubt",
                "Which steps are truly good is not known for this data, so the scores cannot be "
                "verified here. Look at some timelines before you drop anything.",
            )
        ]
    auroc = truth["auroc"]
    figures = f"(AUROC {auroc:.2f}; 0.5 is chance, 1 is perfect)"
    if auroc < WRONG:
        said = ("doubt", f"These scores mislead on this data: bad steps tend to score higher than "
                f"good ones {figures}. Do not drop demonstrations on their word.")  # fmt: skip
    elif auroc < CHANCE:
        said = ("doubt", f"These scores are little better than chance on this data {figures}: do "
                "not drop demonstrations on their word.")  # fmt: skip
    elif auroc < FAIR:
        said = ("doubt", f"The scores tell good steps from bad ones better than chance, but are "
                f"often wrong {figures}.")  # fmt: skip
    elif auroc < GOOD:
        said = ("good", f"The scores tell good steps from bad ones fairly well {figures}.")
    else:
        said = ("good", f"The scores tell good steps from bad ones very well {figures}.")
    skill = truth.get("brier_skill")
    if skill is not None and skill <= 0 and auroc >= CHANCE:
        return [said, ("doubt", "Trust the order of the scores, not their size: read as "
                       "probabilities they are no better than one fixed guess.")]  # fmt: skip
    return [said]


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
