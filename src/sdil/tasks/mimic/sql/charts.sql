-- The chart rows that anything below needs: the one pass over the largest table.
SELECT
    subject_id, stay_id, charttime, storetime, itemid, valuenum,
    CASE WHEN itemid IN ($text_items) THEN value END AS value
FROM chartevents
WHERE itemid IN ($chartevents_items)
