-- Suspected infection: an antibiotic and a culture close together. Onset is the earlier of the two.
-- A culture without a time of day is matched by days, and lies at the beginning of its day.
WITH given AS (
    SELECT *, row_number() OVER (
        PARTITION BY subject_id
        ORDER BY starttime NULLS FIRST, stoptime NULLS FIRST, drug NULLS FIRST,
                 hadm_id NULLS FIRST, stay_id NULLS FIRST) AS number
    FROM antibiotics
), before AS (
    SELECT g.subject_id, g.number, c.specimen,
           coalesce(c.charttime, CAST(c.chartdate AS TIMESTAMP)) AS culture_time
    FROM given AS g
    JOIN cultures AS c ON c.subject_id = g.subject_id AND CASE
        WHEN c.charttime IS NOT NULL
        THEN g.starttime > c.charttime
             AND g.starttime <= c.charttime + INTERVAL ($culture_then_antibiotic) HOUR
        ELSE CAST(g.starttime AS DATE) >= c.chartdate
             AND CAST(g.starttime AS DATE) <= c.chartdate + $culture_then_antibiotic // 24 END
    QUALIFY row_number() OVER (
        PARTITION BY g.subject_id, g.number
        ORDER BY c.chartdate NULLS FIRST, c.charttime NULLS LAST, c.positive DESC,
                 c.micro_specimen_id) = 1
), after AS (
    SELECT g.subject_id, g.number, c.specimen,
           coalesce(c.charttime, CAST(c.chartdate AS TIMESTAMP)) AS culture_time
    FROM given AS g
    JOIN cultures AS c ON c.subject_id = g.subject_id AND CASE
        WHEN c.charttime IS NOT NULL
        THEN g.starttime >= c.charttime - INTERVAL ($antibiotic_then_culture) HOUR
             AND g.starttime < c.charttime
        ELSE CAST(g.starttime AS DATE) >= c.chartdate - $antibiotic_then_culture // 24
             AND CAST(g.starttime AS DATE) <= c.chartdate END
    QUALIFY row_number() OVER (
        PARTITION BY g.subject_id, g.number
        ORDER BY c.chartdate NULLS FIRST, c.charttime NULLS LAST, c.positive DESC,
                 c.micro_specimen_id) = 1
)
SELECT
    g.subject_id, g.stay_id, g.number, g.starttime AS antibiotic_time,
    coalesce(b.culture_time, a.culture_time) AS culture_time,
    coalesce(b.culture_time, g.starttime) AS onset_time
FROM given AS g
LEFT JOIN before AS b ON b.subject_id = g.subject_id AND b.number = g.number
LEFT JOIN after AS a ON a.subject_id = g.subject_id AND a.number = g.number
WHERE b.specimen IS NOT NULL OR a.specimen IS NOT NULL
