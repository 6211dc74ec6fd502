"""Who has sepsis: a row per ICU stay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sdil.files import new_file
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
        source = str(pipeline.path("cohort")).replace("'", "''")
        target = str(temporary).replace("'", "''")
        connection.execute(
            "COPY (SELECT stay_id, included, CASE WHEN included THEN onset END AS onset, reason "
            f"FROM read_parquet('{source}') ORDER BY stay_id) TO '{target}' (FORMAT parquet)"
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
