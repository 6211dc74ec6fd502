-- Glasgow coma scale. Parts not charted come from the previous chart of the last hours, else count
-- as normal; an intubated patient who cannot speak counts as 15.
WITH charted AS (
    SELECT
        subject_id, stay_id, charttime,
        max(CASE WHEN itemid IN ($gcs_motor_items) THEN valuenum END) AS motor,
        max(CASE WHEN itemid NOT IN ($gcs_verbal_items) THEN NULL
                 WHEN value = 'No Response-ETT' THEN 0 ELSE valuenum END) AS verbal,
        max(CASE WHEN itemid IN ($gcs_eyes_items) THEN valuenum END) AS eyes
    FROM charts
    WHERE itemid IN ($gcs_motor_items, $gcs_verbal_items, $gcs_eyes_items)
    GROUP BY subject_id, stay_id, charttime
), ordered AS (
    SELECT *, row_number() OVER (PARTITION BY stay_id ORDER BY charttime NULLS FIRST) AS number
    FROM charted
)
SELECT
    n.stay_id, n.charttime,
    CASE
        WHEN n.verbal = 0 OR (n.verbal IS NULL AND p.verbal = 0) THEN 15
        WHEN p.verbal = 0  -- the tube is out: nothing of the previous chart holds
        THEN coalesce(n.motor, 6) + coalesce(n.verbal, 5) + coalesce(n.eyes, 4)
        ELSE coalesce(n.motor, p.motor, 6) + coalesce(n.verbal, p.verbal, 5)
             + coalesce(n.eyes, p.eyes, 4)
    END AS gcs
FROM ordered AS n
LEFT JOIN ordered AS p
    ON p.stay_id = n.stay_id AND p.number = n.number - 1
    AND p.charttime > n.charttime - INTERVAL ($gcs_previous) HOUR
