-- Rates of vasoactive drugs per kg (vasopressin: units/h), and what they count in norepinephrine.
SELECT
    f.stay_id, i.variable AS drug, f.starttime, f.endtime, i.multiply AS equivalent,
    CASE
        WHEN i.variable = 'norepinephrine' AND f.rateuom = 'mg/kg/min' AND f.patientweight = 1
        THEN f.rate
        WHEN i.variable = 'norepinephrine' AND f.rateuom = 'mg/kg/min' THEN f.rate * 1000.0
        WHEN i.variable = 'phenylephrine' AND f.rateuom = 'mcg/min' THEN f.rate / f.patientweight
        WHEN i.variable = 'vasopressin' AND f.rateuom = 'units/min' THEN f.rate * 60.0
        ELSE f.rate
    END AS rate
FROM infusions AS f
JOIN items AS i ON i.itemid = f.itemid AND i."table" = 'inputevents' AND i.variable <> 'fluid'
