-- SOFA for every hour of a stay, each part as its worst over the last 24 hours.
WITH span AS (
    SELECT stay_id, subject_id, hadm_id, first_beat, hour_zero, last_hour
    FROM clock JOIN stays USING (stay_id)
), timed AS (
    SELECT stay_id, charttime,
           date_diff('minute', coalesce(
               lag(charttime) OVER (PARTITION BY stay_id ORDER BY charttime), first_beat
           ), charttime) AS minutes,
           urine
    FROM urine JOIN span USING (stay_id)
), collected AS (  -- urine of the last 24 hours, and the time it was collected in
    SELECT
        stay_id, charttime,
        sum(exact(urine)) OVER w AS urine,
        round(CAST(sum(minutes) OVER w / 60.0 AS DECIMAL(18, 6)), 2) AS hours
    FROM timed
    WINDOW w AS (PARTITION BY stay_id ORDER BY charttime
                 RANGE BETWEEN INTERVAL ($urine_window) HOUR PRECEDING AND CURRENT ROW)
), measured AS (
    SELECT stay_id, charttime, 'mbp' AS part, value FROM vitals WHERE variable = 'mbp'
    UNION ALL
    SELECT stay_id, charttime, 'gcs', gcs FROM coma
    UNION ALL
    SELECT stay_id, charttime, CASE WHEN ventilated THEN 'ratio_ventilated' ELSE 'ratio' END, ratio
    FROM gases
    UNION ALL
    SELECT s.stay_id, l.charttime, l.variable, l.value
    FROM samples AS l JOIN span AS s ON s.hadm_id = l.hadm_id
    WHERE l.variable IN ('bilirubin', 'creatinine', 'platelet')
    UNION ALL
    SELECT stay_id, charttime, 'urine', CAST(urine AS DOUBLE) / CAST(hours AS DOUBLE) * 24
    FROM collected WHERE hours BETWEEN $urine_least AND $urine_most
), placed AS (
    SELECT m.stay_id, hour_of(m.charttime, s.hour_zero) AS hour, m.part, m.value
    FROM measured AS m JOIN span AS s USING (stay_id)
    UNION ALL
    SELECT stay_id, unnest(generate_series(
               greatest(hour_reached(v.starttime, s.hour_zero) + 1, -$sofa_worst_over),
               least(hour_reached(v.endtime, s.hour_zero), s.last_hour))), v.drug, v.rate
    FROM vasoactive AS v JOIN span AS s USING (stay_id)
    WHERE v.endtime > v.starttime
), worst AS (
    SELECT
        stay_id, hour,
        min(value) FILTER (part = 'mbp') AS mbp,
        min(value) FILTER (part = 'gcs') AS gcs,
        min(value) FILTER (part = 'ratio') AS ratio,
        min(value) FILTER (part = 'ratio_ventilated') AS ratio_ventilated,
        max(value) FILTER (part = 'bilirubin') AS bilirubin,
        max(value) FILTER (part = 'creatinine') AS creatinine,
        min(value) FILTER (part = 'platelet') AS platelet,
        max(value) FILTER (part = 'urine') AS urine,
        max(value) FILTER (part = 'norepinephrine') AS norepinephrine,
        max(value) FILTER (part = 'epinephrine') AS epinephrine,
        max(value) FILTER (part = 'dopamine') AS dopamine,
        max(value) FILTER (part = 'dobutamine') AS dobutamine
    FROM placed
    GROUP BY stay_id, hour
), grid AS (
    SELECT stay_id, hour_zero, unnest(generate_series(-$sofa_worst_over, last_hour)) AS hour
    FROM span
), points AS (
    SELECT
        stay_id, hour, hour_zero + hour * INTERVAL 1 HOUR AS endtime,
        CASE WHEN ratio_ventilated < 100 THEN 4
             WHEN ratio_ventilated < 200 THEN 3
             WHEN ratio < 300 OR ratio_ventilated < 300 THEN 2
             WHEN ratio < 400 OR ratio_ventilated < 400 THEN 1
             WHEN coalesce(ratio, ratio_ventilated) IS NOT NULL THEN 0 END AS respiration,
        CASE WHEN platelet < 20 THEN 4 WHEN platelet < 50 THEN 3 WHEN platelet < 100 THEN 2
             WHEN platelet < 150 THEN 1 WHEN platelet IS NOT NULL THEN 0 END AS coagulation,
        CASE WHEN bilirubin >= 12 THEN 4 WHEN bilirubin >= 6 THEN 3 WHEN bilirubin >= 2 THEN 2
             WHEN bilirubin >= 1.2 THEN 1 WHEN bilirubin IS NOT NULL THEN 0 END AS liver,
        CASE WHEN dopamine > 15 OR epinephrine > 0.1 OR norepinephrine > 0.1 THEN 4
             WHEN dopamine > 5 OR epinephrine > 0 OR norepinephrine > 0 THEN 3
             WHEN dopamine > 0 OR dobutamine > 0 THEN 2
             WHEN mbp < 70 THEN 1
             WHEN coalesce(mbp, dopamine, dobutamine, epinephrine, norepinephrine) IS NOT NULL
             THEN 0 END AS cardiovascular,
        CASE WHEN gcs < 6 THEN 4 WHEN gcs <= 9 THEN 3 WHEN gcs <= 12 THEN 2 WHEN gcs <= 14 THEN 1
             WHEN gcs IS NOT NULL THEN 0 END AS cns,
        CASE WHEN creatinine >= 5 OR urine < 200 THEN 4
             WHEN creatinine >= 3.5 OR urine < 500 THEN 3
             WHEN creatinine >= 2 THEN 2
             WHEN creatinine >= 1.2 THEN 1
             WHEN coalesce(urine, creatinine) IS NOT NULL THEN 0 END AS renal
    FROM grid LEFT JOIN worst USING (stay_id, hour)
), lasting AS (
    SELECT
        stay_id, hour, endtime,
        coalesce(max(respiration) OVER w, 0) AS respiration,
        coalesce(max(coagulation) OVER w, 0) AS coagulation,
        coalesce(max(liver) OVER w, 0) AS liver,
        coalesce(max(cardiovascular) OVER w, 0) AS cardiovascular,
        coalesce(max(cns) OVER w, 0) AS cns,
        coalesce(max(renal) OVER w, 0) AS renal
    FROM points
    WINDOW w AS (PARTITION BY stay_id ORDER BY hour
                 ROWS BETWEEN $sofa_worst_over - 1 PRECEDING AND CURRENT ROW)
)
SELECT *, respiration + coagulation + liver + cardiovascular + cns + renal AS sofa
FROM lasting
WHERE hour >= 0
