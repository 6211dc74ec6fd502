-- Urine per charted time (mL); irrigant that went in counts against it.
SELECT
    stay_id, charttime,
    CAST(sum(exact(CASE WHEN itemid IN ($urine_irrigant_in_items) AND value > 0
                        THEN -value ELSE value END)) AS DOUBLE) AS urine
FROM outputevents
WHERE itemid IN ($outputevents_items)
GROUP BY stay_id, charttime
