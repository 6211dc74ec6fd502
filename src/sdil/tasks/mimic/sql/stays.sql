-- One row per ICU stay: when, how old, and how it ended.
SELECT
    i.stay_id, i.subject_id, i.hadm_id, i.intime, i.outtime,
    p.anchor_age + year(a.admittime) - p.anchor_year AS age,
    CASE WHEN p.gender = 'F' THEN 1 ELSE 0 END AS female,
    a.hospital_expire_flag = 1 AS died_in_hospital,
    p.dod IS NOT NULL
        AND CAST(p.dod AS DATE) <= CAST(i.intime AS DATE) + $mortality AS died_within_days
FROM icustays AS i
JOIN admissions AS a ON a.hadm_id = i.hadm_id
JOIN patients AS p ON p.subject_id = i.subject_id
