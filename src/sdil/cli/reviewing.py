"""What a person says while reviewing, kept on disk at once, and the judgement that follows from it.

No network here: `serving.py` lets a browser on this machine ask for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.explanation.pictures import Filmed, Observed, episode_strips
from sdil.explanation.seen import Names, what_was_seen
from sdil.judges.asking import Question, is_labelled
from sdil.judges.fitted import EvidenceJudge
from sdil.labels import (
    Label,
    agreements,
    check_labels,
    episodes_of,
    load_labels,
    save_labels,
)
from sdil.observations import has_images
from sdil.runs import load_tellable, tell
from sdil.scores import StepScores

FOLLOWING = 2
"""After so many answers the next questions are chosen by them."""
_SHOWN = 10  # episodes that changed most
_STRIP_ROOM = 400_000  # bytes of what one camera saw in an episode; it does not go far
_STRIPS_KEPT = 20


class Review:
    """A judgement, its demonstrations, and a table of labels that grows."""

    def __init__(
        self,
        judgement: Path,
        demos: Demonstrations,
        table: Path,
        *,
        who: str,
        names: Names,
        questions: int = 20,
        filmed: Filmed | None = None,
    ) -> None:
        self.judgement, self.demos, self.table, self.who = judgement, demos, table, who
        self.labels = load_labels(table, demos) if table.exists() else []
        self.names, self.n_questions = names, questions
        self._seen = what_was_seen(demos, names)
        if filmed is None and has_images(demos.spaces.observation):
            filmed = Observed(demos)
        self.filmed = filmed
        self._strips: dict[int, dict[str, Any]] = {}  # of the episodes looked at last
        self._episodes, self._lock, self._looking = episodes_of(demos), Lock(), Lock()
        self._mine = 0  # answers of this session, which can be undone
        self._take(load_tellable(judgement))
        self._choosing: Thread | None = None
        self._lists = 0  # of questions that were put
        self._put(self.judge.ask(demos, questions, self.labels), len(self.labels))

    def _take(self, judge: EvidenceJudge) -> None:
        self.judge = judge
        self.scores: list[StepScores] = judge.score(self.demos.noisy)

    def _put(self, questions: Sequence[Question], n_labels: int) -> None:
        """These are asked from now on, chosen by so many labels."""
        self.asked = [dataclasses.asdict(question) for question in questions]
        self._chosen_by, self._lists = n_labels, self._lists + 1

    def _follow(self) -> None:
        """Have the next questions chosen by the answers so far, while the person goes on."""
        due = len(self.labels) - self._chosen_by >= FOLLOWING
        if due and (self._choosing is None or not self._choosing.is_alive()):
            self._choosing = Thread(target=self._choose, args=(self.judge, list(self.labels)))
            self._choosing.daemon = True  # who ends the review does not wait for it
            self._choosing.start()

    def _choose(self, judge: EvidenceJudge, labels: list[Label]) -> None:
        """The judgement folder, and the scores that are shown, stay as they are."""
        found = judge.tell(labels).ask(self.demos, self.n_questions, labels)
        with self._lock:
            since = self.labels[len(labels) :]
            if judge is self.judge and self.labels[: len(labels)] == labels:  # nothing taken back
                self._put([q for q in found if not is_labelled(q, since)], len(labels))

    def state(self) -> dict[str, Any]:
        """All but the episodes themselves."""
        with self._lock:
            return self._state()

    def _state(self) -> dict[str, Any]:
        program = np.concatenate(
            [np.zeros(self.demos.clean.n_steps), *(s.optimality for s in self.scores)]
        )
        noisy = [label for label in self.labels if label.set == "noisy"]
        share = self.judge.good_share
        return {
            "who": self.who,
            "labels": [dataclasses.asdict(label) for label in self.labels],
            "can_undo": self._mine,
            "questions": self.asked,
            "list": self._lists,
            "episodes": list(self.demos.noisy.ids),
            "good_share": None if share is None else [share.point, share.low, share.high],
            "agreement": agreements(noisy, self._episodes, program),
        }

    def episode(self, number: int) -> dict[str, Any]:
        """What there is to see of a noisy episode."""
        if not 0 <= number < len(self.scores):
            raise InputError(f"there is no noisy episode number {number}")
        name, judged = self.demos.noisy.ids[number], self.scores[number]
        first, length = self._episodes["noisy", name]
        steps, seen = slice(first, first + length), self._seen
        actions = np.asarray(self.demos.noisy[number].actions).reshape(length, -1)
        called = self.names.action
        counted = actions.shape[1] == 1 and actions.dtype.kind in "iu"
        return {
            "episode": name,
            "optimality": _plain(judged.optimality),
            "parts": {part: _plain(values) for part, values in judged.parts.items()},
            "actions": [
                called[int(a[0])] if counted and called else ", ".join(f"{x:g}" for x in a)
                for a in actions
            ],
            "features": seen.names,
            "seen": [] if seen.features is None else [_plain(row) for row in seen.features[steps]],
            "rewards": None if seen.rewards is None else _plain(seen.rewards[steps]),
            "film": self._film(number),
        }

    def _film(self, number: int) -> dict[str, Any]:
        """What cameras saw in a noisy episode, decoded now, and what is to be said of it."""
        if self.filmed is None:
            return {"strips": {}, "said": ""}
        with self._looking:  # sources are not made for several readers at once
            if number not in self._strips:
                length = int(self.demos.noisy.lengths[number])
                try:
                    found = episode_strips(self.filmed, "noisy", number, length, _STRIP_ROOM)
                    said = ""
                except InputError as error:
                    found, said = {}, str(error)
                if len(self._strips) >= _STRIPS_KEPT:
                    del self._strips[next(iter(self._strips))]
                strips = {camera: dataclasses.asdict(strip) for camera, strip in found.items()}
                self._strips[number] = {"strips": strips, "said": said}
            return self._strips[number]

    def answer(self, said: dict[str, Any]) -> dict[str, Any]:
        """Keep an answer; when this returns it is on disk."""
        allowed = ("set", "episode", "first_step", "last_step", "label", "note")
        given = {name: said[name] for name in allowed if name in said}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            label = Label(**given, who=self.who, when=now)
        except TypeError as error:
            raise InputError(f"an answer lacks something ({error})") from None
        check_labels([label], self._episodes)
        with self._lock:
            self._write([*self.labels, label])
            self._mine += 1
            self._follow()
            return self._state()

    def undo(self) -> dict[str, Any]:
        """Take the last answer of this session back."""
        with self._lock:
            if not self._mine:
                raise InputError("there is no answer of this session to take back")
            self._write(self.labels[:-1])
            self._mine -= 1
            self._chosen_by = min(self._chosen_by, len(self.labels))
            return self._state()

    def _write(self, labels: Sequence[Label]) -> None:
        save_labels(self.table, labels)
        self.labels = list(labels)

    def rejudge(self) -> dict[str, Any]:
        """Tell the judgement all labels, and say what changed."""
        with self._lock:
            before, share = self.scores, self.judge.good_share
            self._take(tell(self.judgement, self.labels))
            self._put(self.judge.ask(self.demos, self.n_questions, self.labels), len(self.labels))
            moved = [
                float(np.abs(b.optimality - a.optimality).mean())
                for a, b in zip(before, self.scores, strict=True)
            ]
            turned = [
                int(((b.optimality > 0) != (a.optimality > 0)).sum())
                for a, b in zip(before, self.scores, strict=True)
            ]
            most = [int(i) for i in np.argsort(moved)[::-1][:_SHOWN] if moved[i] > 0]
            now = self.judge.good_share
            changed = {
                "steps": int(sum(len(s.optimality) for s in before)),
                "turned": sum(turned),
                "good_share": [None if s is None else s.point for s in (share, now)],
                "heard": [s.name for s in self.judge.signals if s.heard and s.output == "step"],
                "most": [
                    {
                        "number": i,
                        "episode": self.demos.noisy.ids[i],
                        "before": float(before[i].optimality.mean()),
                        "after": float(self.scores[i].optimality.mean()),
                        "turned": turned[i],
                    }
                    for i in most
                ],
            }
            return self._state() | {"changed": changed}


def _plain(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
