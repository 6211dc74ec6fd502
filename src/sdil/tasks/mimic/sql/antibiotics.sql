-- Systemic antibiotics and the ICU stay they were started in, if any.
-- A drug counts by name and route; every prescription of such a pair then does.
WITH systemic AS (
    SELECT DISTINCT drug, route
    FROM prescriptions
    WHERE drug_type NOT IN (SELECT text FROM antibiotic_terms WHERE kind = 'not_type')
      AND route NOT IN (SELECT text FROM antibiotic_terms WHERE kind = 'not_route')
      AND drug IS NOT NULL
), named AS (
    SELECT drug, route
    FROM systemic AS s
    WHERE EXISTS (FROM antibiotic_terms AS t
                  WHERE t.kind = 'drug' AND contains(lower(s.drug), t.text))
      AND NOT EXISTS (FROM antibiotic_terms AS t
                      WHERE t.kind = 'not_drug' AND contains(lower(s.drug), t.text))
      AND NOT EXISTS (FROM antibiotic_terms AS t
                      WHERE t.kind = 'not_in_route' AND contains(lower(s.route), t.text))
)
SELECT p.subject_id, p.hadm_id, s.stay_id, p.drug, p.starttime, p.stoptime
FROM prescriptions AS p
SEMI JOIN named AS n ON p.drug = n.drug AND p.route = n.route
LEFT JOIN stays AS s
    ON s.hadm_id = p.hadm_id AND p.starttime >= s.intime AND p.starttime < s.outtime
