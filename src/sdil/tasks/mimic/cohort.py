"""Who has sepsis: a row per ICU stay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sdil.files import new_file
from sdil.formats.sql import quoted_text
from sdil.tasks.mimic.pipeline import Pipeline, Progress


@dataclass(frozen=True)
class CohortFlow:
    """How many ICU stays there are, and why each is in or out."""

    stays: int
    included: int
    reasons: dict[str, int]


def write_cohort(pipeline: Pipeline, out: Path, on_progress: Progress | None = None) -> CohortFlow:
    """Write `stay_id, included, onset, reason` as Parquet; onset in hours from ICU admission."""
    pipeline.run(["cohort"], on_progress)
    with pipeline.connect() as connection, new_file(out) as temporary:
        connection.execute(
            "COPY (SELECT stay_id, included, CASE WHEN included THEN onset END AS onset, reason "
            f"FROM read_parquet({quoted_text(pipeline.path('cohort'))}) ORDER BY stay_id) "
            f"TO {quoted_text(temporary)} (FORMAT parquet)"
        )
    return cohort_flow(pipeline)


def cohort_flow(pipeline: Pipeline) -> CohortFlow:
    """Counts of a cohort that was computed before."""
    found = pipeline.fetch(
        "SELECT reason, included, count(*) AS stays FROM cohort GROUP BY ALL ORDER BY reason",
        "cohort",
    )
    rows = list(zip(found["reason"], found["included"], found["stays"], strict=True))
    return CohortFlow(
        stays=sum(int(n) for _, _, n in rows),
        included=sum(int(n) for _, inside, n in rows if inside),
        reasons={str(reason): int(n) for reason, _, n in rows},
    )
