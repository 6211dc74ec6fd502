"""What a run or a judgement was asked for, as `run.json` keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sdil.algorithms import JUDGES, LEARNERS, find_learner, make_judge
from sdil.algorithms.learner import Learner
from sdil.errors import InputError
from sdil.files import read_json, refuse_missing
from sdil.judging import AnyJudge
from sdil.limits import check_fields
from sdil.moved import as_now

FORMAT_VERSION = 2
_BESIDE = {  # what `run.json` says beside the arguments
    "task": str | None,
    "environment": str | None,
    "fingerprint": str,
    "valid_fingerprint": str | None,
    "versions": dict,
}


@dataclass(frozen=True)
class Arguments:
    """What was asked for."""

    makes: Literal["policy", "judge"]
    name: str
    """Of the learner, or of the judge."""
    hyperparameters: dict[str, Any]
    data: str
    """The folder of demonstrations, or the address of other people's data with what was chosen of
    it, as an absolute path."""
    seed: int = 0
    valid: str | None = None
    clean_only: bool = False
    env: str | None = None
    judge: str | None = None
    """Of a learner that was given one: its name,"""
    judge_folder: str | None = None
    """and where it came from, if that was a folder."""
    threads: int = 1
    tensorboard: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    """On which networks and frames are computed."""

    def maker(self) -> Learner | AnyJudge:
        """The learner or the judge."""
        if self.makes == "judge":
            return make_judge(self.name, **as_now(self.hyperparameters))
        return find_learner(self.name)(**as_now(self.hyperparameters))


def arguments_of(about: dict[str, Any], out: Path, named: str | None = None) -> Arguments:
    """What a run was given, as `run.json` says it. A learner or judge that is not one of ours must
    be `named` by the user too: a file does not say what to import."""
    own = about["name"] not in {**LEARNERS, **JUDGES}
    if (own or named is not None) and named != about["name"]:
        option = "--learner" if about["makes"] == "policy" else "--judge"
        raise InputError(
            f"{out} was made by {about['name']}; to go on with it, say so too: "
            f"{option} {about['name']}"
        )
    try:
        arguments = Arguments(**{name: about[name] for name in get_type_hints(Arguments)})
        maker: Any = arguments.maker()
        check_fields(getattr(maker, "learner", maker), arguments.name)
        return arguments
    except (KeyError, TypeError, ValueError) as error:  # InputError is a ValueError
        raise InputError(f"{out / 'run.json'}: damaged ({error})") from None


def read_run(folder: Path) -> dict[str, Any]:
    """The contents of `run.json`, all of it that anybody needs checked."""
    refuse_missing(folder, "`sdil train` makes a run folder")
    path = folder / "run.json"
    about = read_json(path, what="a run folder")
    found = about.get("format") if isinstance(about, dict) else None
    if found != FORMAT_VERSION:
        raise InputError(
            f"{path}: format {found!r} is not the one this version reads "
            f"({FORMAT_VERSION}); use the sdil it was made with, or make it again"
        )
    about.setdefault("device", "cpu")  # folders of before: there was no other
    for name, kind in {**get_type_hints(Arguments), **_BESIDE}.items():
        if name not in about:
            raise InputError(f"{path}: damaged ({name} is missing)")
        if not _is(about[name], kind):
            raise InputError(f"{path}: damaged ({name} is {about[name]!r})")
    return dict(about)


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is what an annotation says; True is no number."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    kind = get_origin(kind) if get_origin(kind) is dict else kind
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def data_of_run(folder: Path) -> str:
    """The demonstrations that a run or a judgement was made of."""
    if not folder.exists():
        raise InputError(
            f"{folder} does not exist; 'sdil judge' and 'sdil train' make such folders"
        )
    if not (folder / "run.json").exists():
        raise InputError(f"{folder} does not say what it was made from; pass --data FOLDER")
    return str(read_run(folder)["data"])


def is_finished(folder: Path) -> bool:
    """Whether there is a policy or a judge in it."""
    return any((folder / f"{kind}.json").exists() for kind in ("policy", "judge"))
