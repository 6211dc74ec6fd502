-- Intervals of one kind of breathing support, from oxygen devices and ventilator modes.
WITH flow AS (
    SELECT subject_id, charttime, max(stay_id) AS stay_id
    FROM charts
    WHERE itemid IN ($oxygen_flow_items) AND value IS NOT NULL
    GROUP BY subject_id, charttime
), device AS (
    SELECT subject_id, charttime, stay_id, value
    FROM charts
    WHERE itemid IN ($oxygen_device_items)
    QUALIFY row_number() OVER (PARTITION BY subject_id, charttime
                               ORDER BY storetime DESC NULLS LAST, value DESC NULLS LAST) = 1
), oxygen AS (  -- the reference counts a device only where a flow was charted at the same time
    SELECT f.subject_id, f.charttime, coalesce(f.stay_id, d.stay_id) AS stay_id, d.value AS device
    FROM flow AS f JOIN device AS d USING (subject_id, charttime)
), modes AS (
    SELECT
        subject_id, charttime, max(stay_id) AS stay_id,
        max(CASE WHEN itemid IN ($ventilator_mode_items) THEN value END) AS mode,
        max(CASE WHEN itemid IN ($ventilator_mode_hamilton_items) THEN value END) AS hamilton
    FROM charts
    WHERE itemid IN ($ventilator_mode_items, $ventilator_mode_hamilton_items)
      AND value IS NOT NULL AND stay_id IS NOT NULL
    GROUP BY subject_id, charttime
), kinds AS (
    SELECT stay_id, charttime, d.status AS by_device, m.status AS by_mode, h.status AS by_hamilton
    FROM oxygen FULL JOIN modes USING (stay_id, charttime)
    LEFT JOIN ventilation_terms AS d ON d.variable = 'oxygen_device' AND d.text = device
    LEFT JOIN ventilation_terms AS m ON m.variable = 'ventilator_mode' AND m.text = mode
    LEFT JOIN ventilation_terms AS h
        ON h.variable = 'ventilator_mode_hamilton' AND h.text = hamilton
), stated AS (
    SELECT stay_id, charttime, CASE
        WHEN by_device = 'Tracheostomy' THEN 'Tracheostomy'
        WHEN 'InvasiveVent' IN (by_device, by_mode, by_hamilton) THEN 'InvasiveVent'
        WHEN 'NonInvasiveVent' IN (by_device, by_hamilton) THEN 'NonInvasiveVent'
        ELSE by_device END AS status
    FROM kinds
), neighbours AS (
    SELECT
        stay_id, charttime, status,
        lag(charttime) OVER (PARTITION BY stay_id, status ORDER BY charttime) AS same_before,
        lead(charttime) OVER (PARTITION BY stay_id ORDER BY charttime) AS next_time,
        lag(status) OVER (PARTITION BY stay_id ORDER BY charttime) AS status_before
    FROM stated
    WHERE status IS NOT NULL AND stay_id IS NOT NULL
), numbered AS (
    SELECT *, sum(CASE WHEN status_before IS NULL OR status_before <> status
                            OR date_diff('hour', same_before, charttime) >= $ventilation_gap
                       THEN 1 ELSE 0 END) OVER (PARTITION BY stay_id ORDER BY charttime) AS number
    FROM neighbours
)
SELECT
    stay_id, max(status) AS status, min(charttime) AS starttime,
    max(CASE WHEN next_time IS NULL OR date_diff('hour', charttime, next_time) >= $ventilation_gap
             THEN charttime ELSE next_time END) AS endtime
FROM numbered
GROUP BY stay_id, number
HAVING min(charttime) <> max(charttime)
