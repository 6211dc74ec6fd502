-- Sepsis-3, a row per ICU stay: the first suspected infection of the stay with enough SOFA around.
WITH septic AS (
    SELECT u.stay_id, u.onset_time,
           max(s.sofa) OVER (PARTITION BY u.stay_id, u.onset_time) AS highest_sofa
    FROM suspicion AS u
    JOIN sofa AS s
        ON s.stay_id = u.stay_id AND s.sofa >= $sofa_least
        AND s.endtime >= u.onset_time - INTERVAL ($sofa_before) HOUR
        AND s.endtime <= u.onset_time + INTERVAL ($sofa_after) HOUR
    QUALIFY row_number() OVER (
        PARTITION BY u.stay_id
        ORDER BY u.onset_time, u.antibiotic_time, u.culture_time NULLS FIRST, s.endtime) = 1
)
SELECT
    t.stay_id, t.age >= $adult_age AND p.stay_id IS NOT NULL AS included,
    date_diff('second', t.intime, p.onset_time) / 3600.0 AS onset,
    CASE
        WHEN t.age < $adult_age THEN 'under 18'
        WHEN p.stay_id IS NOT NULL THEN 'Sepsis-3'
        WHEN t.stay_id NOT IN (SELECT stay_id FROM suspicion WHERE stay_id IS NOT NULL)
        THEN 'no suspected infection'
        WHEN t.stay_id NOT IN (SELECT stay_id FROM clock) THEN 'no heart rate charted'
        ELSE 'SOFA below 2 around the suspected infection'
    END AS reason,
    t.subject_id, p.onset_time, p.highest_sofa
FROM stays AS t
LEFT JOIN septic AS p ON p.stay_id = t.stay_id
