-- Fluids and vasoactive drugs, as charted.
SELECT
    stay_id, starttime, endtime, itemid, amount, amountuom, rate, rateuom, patientweight
FROM inputevents
WHERE itemid IN ($inputevents_items)
