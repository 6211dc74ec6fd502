-- One row per specimen sent to microbiology.
SELECT
    micro_specimen_id,
    max(subject_id) AS subject_id,
    CAST(max(chartdate) AS DATE) AS chartdate,
    max(charttime) AS charttime,
    max(spec_type_desc) AS specimen,
    -- only the order of cultures of the same time depends on this
    max(CASE WHEN org_name IS NOT NULL AND org_itemid NOT IN ($organism_not_counted_items)
                  AND org_name NOT IN ('', 'CANCELLED') THEN 1 ELSE 0 END) AS positive
FROM microbiologyevents
GROUP BY micro_specimen_id
