-- What several steps share. `zero` is the end of hour 0 of a stay; hour h ends at zero + h.
CREATE OR REPLACE MACRO hour_of(t, zero) AS
    CAST(ceil(date_diff('second', zero, t) / 3600.0) AS INTEGER);
CREATE OR REPLACE MACRO hour_reached(t, zero) AS
    CAST(floor(date_diff('second', zero, t) / 3600.0) AS INTEGER);
-- Limits of variables.csv: an empty one does not bind.
CREATE OR REPLACE MACRO acceptable(v, more_than, at_least, less_than, at_most) AS
    v IS NOT NULL
    AND (more_than IS NULL OR v > more_than) AND (at_least IS NULL OR v >= at_least)
    AND (less_than IS NULL OR v < less_than) AND (at_most IS NULL OR v <= at_most);
-- Sums of decimals do not depend on the order in which threads add them.
CREATE OR REPLACE MACRO exact(v) AS CAST(v AS DECIMAL(18, 6));
