-- Laboratory values within their limits, one per specimen and variable.
SELECT
    l.specimen_id, i.variable,
    max(l.subject_id) AS subject_id, max(l.hadm_id) AS hadm_id, max(l.charttime) AS charttime,
    max((l.valuenum - coalesce(i.subtract, 0)) * coalesce(i.multiply, 1)) AS value,
    max(CASE WHEN i.variable = 'specimen' THEN l.value END) AS text
FROM labevents AS l
JOIN items AS i ON i.itemid = l.itemid AND i."table" = 'labevents'
WHERE l.itemid IN ($labevents_items)
  AND (i.variable = 'specimen'
       OR acceptable(l.valuenum, i.more_than, i.at_least, i.less_than, i.at_most))
GROUP BY l.specimen_id, i.variable
