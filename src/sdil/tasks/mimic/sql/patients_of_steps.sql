-- What does not change during a stay: age, sex, weight, comorbidity, outcome.
WITH weighed AS (
    SELECT c.stay_id, c.valuenum AS weight
    FROM charts AS c
    JOIN items AS i ON i.itemid = c.itemid AND i.variable IN ('weight_at_admission', 'weight_daily')
    WHERE acceptable(c.valuenum, i.more_than, i.at_least, i.less_than, i.at_most)
    QUALIFY row_number() OVER (
        PARTITION BY c.stay_id
        ORDER BY i.variable = 'weight_at_admission' DESC, c.charttime, c.valuenum) = 1
), conditions AS (
    SELECT DISTINCT d.hadm_id, k.family, k.points
    FROM diagnoses_icd AS d
    JOIN comorbidities AS k
        ON k.icd_version = d.icd_version
        AND substring(d.icd_code, 1, length(k.first)) BETWEEN k.first AND k.last
    SEMI JOIN stays AS s ON s.hadm_id = d.hadm_id
), families AS (
    SELECT hadm_id, family, max(points) AS points FROM conditions GROUP BY hadm_id, family
), charlson AS (
    SELECT hadm_id, sum(points) AS points FROM families GROUP BY hadm_id
)
SELECT
    p.stay_id, p.origin, p.first_step, p.last_state, p.highest_sofa, s.subject_id,
    s.age, s.female, w.weight,
    coalesce(k.points, 0) + CASE WHEN s.age < 50 THEN 0 WHEN s.age < 60 THEN 1
                                 WHEN s.age < 70 THEN 2 WHEN s.age < 80 THEN 3 ELSE 4 END
        AS charlson,
    s.died_in_hospital, s.died_within_days
FROM steps AS p
JOIN stays AS s ON s.stay_id = p.stay_id
LEFT JOIN weighed AS w ON w.stay_id = p.stay_id
LEFT JOIN charlson AS k ON k.hadm_id = s.hadm_id
