-- The included stays that have at least one whole step, and where their steps begin and end: step k
-- covers 4 hours from origin + 4 k; states are taken at its beginning and, the last, at its end.
WITH placed AS (
    SELECT c.stay_id, t.intime, t.outtime,
           c.onset_time - INTERVAL ($steps_before) HOUR AS origin,
           c.highest_sofa
    FROM cohort AS c JOIN stays AS t ON t.stay_id = c.stay_id
    WHERE c.included
), bounded AS (
    SELECT *,
        CAST(greatest(0, ceil(date_diff('second', origin, intime) / ($step * 3600.0))) AS INTEGER)
            AS first_step,
        CAST(least(($steps_before + $steps_after) // $step,
                   floor(date_diff('second', origin, outtime) / ($step * 3600.0))) AS INTEGER)
            AS last_state
    FROM placed
)
SELECT stay_id, origin, first_step, last_state, highest_sofa
FROM bounded
WHERE last_state > first_step
