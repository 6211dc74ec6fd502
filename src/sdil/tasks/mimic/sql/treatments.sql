-- What was given in each step: fluid (tonicity-adjusted mL, an infusion spread evenly over its
-- time) and the highest rate of vasopressors (mcg/kg/min of norepinephrine or its equivalent).
-- Step k begins at origin + 4 k hours; the one before the first is wanted too, as the first
-- "previous action".
WITH spans AS (
    SELECT stay_id, step, origin + step * INTERVAL ($step) HOUR AS begins,
           origin + (step + 1) * INTERVAL ($step) HOUR AS ends
    FROM (SELECT *, unnest(generate_series(first_step - 1, last_state - 1)) AS step FROM steps)
), fluid AS (
    SELECT
        p.stay_id, p.step,
        CAST(sum(exact(f.amount * i.multiply * CASE
            WHEN f.endtime > f.starttime
            THEN date_diff('second', greatest(f.starttime, p.begins), least(f.endtime, p.ends))
                 / CAST(date_diff('second', f.starttime, f.endtime) AS DOUBLE)
            ELSE 1 END)) AS DOUBLE) AS fluid
    FROM infusions AS f
    JOIN items AS i ON i.itemid = f.itemid AND i.variable = 'fluid'
    JOIN spans AS p
        ON p.stay_id = f.stay_id
        AND CASE WHEN f.endtime > f.starttime THEN f.starttime < p.ends AND f.endtime > p.begins
                 ELSE f.starttime >= p.begins AND f.starttime < p.ends END
    WHERE f.amount > 0
      -- the unit of each item as in variables.csv; any other would not be mL
      AND (lower(f.amountuom) = 'ml' OR (i.unit LIKE 'g;%' AND lower(f.amountuom) = 'grams')
           OR (i.unit LIKE 'mEq;%' AND lower(f.amountuom) = 'meq'))
    GROUP BY p.stay_id, p.step
), pressor AS (  -- only what touches the steps
    SELECT v.*
    FROM vasoactive AS v JOIN steps AS s ON s.stay_id = v.stay_id
    WHERE v.drug <> 'dobutamine' AND v.endtime > v.starttime
      AND v.starttime < s.origin + s.last_state * INTERVAL ($step) HOUR
      AND v.endtime > s.origin + (s.first_step - 1) * INTERVAL ($step) HOUR
), times AS (
    SELECT stay_id, starttime AS time FROM pressor UNION SELECT stay_id, endtime FROM pressor
), pieces AS (
    SELECT stay_id, time AS begins, lead(time) OVER (PARTITION BY stay_id ORDER BY time) AS ends
    FROM times
), by_drug AS (
    SELECT p.stay_id, p.begins, p.ends, v.drug, max(v.rate * v.equivalent) AS dose
    FROM pieces AS p
    JOIN pressor AS v
        ON v.stay_id = p.stay_id AND v.starttime <= p.begins AND v.endtime >= p.ends
    GROUP BY p.stay_id, p.begins, p.ends, v.drug
), doses AS (
    SELECT stay_id, begins, ends,
           CAST(round(sum(CAST(dose AS DECIMAL(18, 9))), 4) AS DOUBLE) AS dose
    FROM by_drug
    GROUP BY stay_id, begins, ends
), highest AS (
    SELECT p.stay_id, p.step, max(d.dose) AS vasopressor
    FROM spans AS p
    JOIN doses AS d ON d.stay_id = p.stay_id AND d.begins < p.ends AND d.ends > p.begins
    GROUP BY p.stay_id, p.step
)
SELECT
    p.stay_id, p.step,
    coalesce(f.fluid, 0) AS fluid, coalesce(greatest(h.vasopressor, 0), 0) AS vasopressor
FROM spans AS p
LEFT JOIN fluid AS f USING (stay_id, step)
LEFT JOIN highest AS h USING (stay_id, step)
