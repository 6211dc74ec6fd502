-- Arterial oxygen over inspired oxygen, per blood gas and ICU stay of the patient. FiO2 is the one
-- noted on the sample, else the last one charted in the hours before it.
WITH gas AS (
    SELECT
        specimen_id, max(subject_id) AS subject_id, max(charttime) AS charttime,
        max(CASE WHEN variable = 'specimen' THEN text END) AS specimen,
        max(CASE WHEN variable = 'pao2' THEN value END) AS pao2,
        max(CASE WHEN variable = 'fio2_of_sample' THEN value END) AS fio2
    FROM samples
    WHERE variable IN ('specimen', 'pao2', 'fio2_of_sample')
    GROUP BY specimen_id
), charted AS (
    SELECT c.subject_id, c.charttime, max(c.valuenum * coalesce(i.multiply, 1)) AS fio2
    FROM charts AS c
    JOIN items AS i ON i.itemid = c.itemid AND i.variable = 'fio2'
    WHERE acceptable(c.valuenum, i.more_than, i.at_least, i.less_than, i.at_most)
    GROUP BY c.subject_id, c.charttime
), arterial AS (
    SELECT
        g.subject_id, g.charttime,
        100 * g.pao2 / coalesce(g.fio2, CASE
            WHEN c.charttime >= g.charttime - INTERVAL ($fio2_before_sample) HOUR THEN c.fio2
        END) AS ratio
    FROM gas AS g
    ASOF LEFT JOIN charted AS c ON c.subject_id = g.subject_id AND c.charttime <= g.charttime
    WHERE g.pao2 IS NOT NULL AND g.specimen = 'ART.'
)
SELECT
    s.stay_id, a.charttime, a.ratio,
    EXISTS (FROM ventilation AS v
            WHERE v.stay_id = s.stay_id AND v.status = 'InvasiveVent'
              AND a.charttime BETWEEN v.starttime AND v.endtime) AS ventilated
FROM arterial AS a
JOIN stays AS s ON s.subject_id = a.subject_id
WHERE a.ratio IS NOT NULL
