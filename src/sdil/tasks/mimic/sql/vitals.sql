-- Charted numbers within their limits: the mean of all items of a variable at one time.
SELECT
    c.stay_id, c.charttime, i.variable,
    avg(exact((c.valuenum - coalesce(i.subtract, 0)) * coalesce(i.multiply, 1))) AS value
FROM charts AS c
JOIN items AS i ON i.itemid = c.itemid AND i."table" = 'chartevents'
WHERE c.stay_id IS NOT NULL
  AND i.variable IN ('heart_rate', 'sbp', 'dbp', 'mbp', 'resp_rate', 'temperature', 'spo2',
                     'glucose', 'fio2')
  AND acceptable(c.valuenum, i.more_than, i.at_least, i.less_than, i.at_most)
GROUP BY c.stay_id, c.charttime, i.variable
