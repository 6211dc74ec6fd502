-- The hours of a stay, counted by its charted heart rates: hour 0 ends at the first full hour at or
-- after the first of them.
SELECT
    s.stay_id,
    min(c.charttime) AS first_beat,
    CASE WHEN date_trunc('hour', min(c.charttime)) = min(c.charttime) THEN min(c.charttime)
         ELSE date_trunc('hour', min(c.charttime)) + INTERVAL 1 HOUR END AS hour_zero,
    date_diff('hour', min(c.charttime), max(c.charttime)) AS last_hour
FROM stays AS s
JOIN charts AS c ON c.stay_id = s.stay_id AND c.itemid IN ($heart_rate_items)
GROUP BY s.stay_id
