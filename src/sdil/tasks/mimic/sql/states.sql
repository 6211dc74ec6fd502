-- What was measured in the 4 hours up to each state, in long form: means, and for urine the sum.
-- State k is the one at origin + 4 k hours; states before the first step serve to hold values.
WITH chosen AS (
    SELECT p.*, s.hadm_id, s.subject_id, c.hour_zero, c.last_hour
    FROM steps AS p JOIN stays AS s USING (stay_id) JOIN clock AS c USING (stay_id)
), measured AS (
    SELECT stay_id, charttime, variable, value FROM vitals
    UNION ALL
    SELECT stay_id, charttime, 'gcs', gcs FROM coma
    UNION ALL
    SELECT stay_id, charttime, 'pao2_fio2', ratio FROM gases
    UNION ALL
    SELECT c.stay_id, l.charttime, l.variable, l.value
    FROM samples AS l JOIN chosen AS c ON c.hadm_id = l.hadm_id
    WHERE l.variable NOT IN ('specimen', 'fio2_of_sample')
    UNION ALL
    SELECT stay_id, charttime, 'urine_4h', urine FROM urine
), placed AS (
    SELECT
        c.stay_id, m.variable,
        CAST(ceil(date_diff('second', c.origin, m.charttime) / ($step * 3600.0)) AS INTEGER)
            AS state,
        m.value, c.last_state
    FROM measured AS m
    JOIN chosen AS c ON c.stay_id = m.stay_id
    JOIN features AS f ON f.feature = m.variable
    WHERE m.value BETWEEN f.low AND f.high
), summed AS (
    SELECT stay_id, state, variable,
           CASE WHEN variable = 'urine_4h' THEN CAST(sum(exact(value)) AS DOUBLE)
                ELSE avg(exact(value)) END AS value
    FROM placed
    WHERE state BETWEEN -($longest_hold // $step) AND last_state
    GROUP BY stay_id, state, variable
), moments AS (
    SELECT *, origin + state * INTERVAL ($step) HOUR AS moment
    FROM (SELECT *, unnest(generate_series(first_step, last_state)) AS state FROM chosen)
)
SELECT stay_id, state, variable, value FROM summed
UNION ALL
SELECT m.stay_id, m.state, 'sofa', s.sofa
FROM moments AS m
JOIN sofa AS s
    ON s.stay_id = m.stay_id AND s.hour = least(hour_reached(m.moment, m.hour_zero), m.last_hour)
UNION ALL
SELECT m.stay_id, m.state, 'ventilated',
       CASE WHEN EXISTS (FROM ventilation AS v
                         WHERE v.stay_id = m.stay_id AND v.status = 'InvasiveVent'
                           AND m.moment BETWEEN v.starttime AND v.endtime) THEN 1 ELSE 0 END
FROM moments AS m
