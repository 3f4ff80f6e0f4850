ALTER TABLE run ADD COLUMN build INTEGER;       -- which build of the variant's source, from 0; absent: the normal one

CREATE TABLE layout_spread (                    -- variation between builds of one source
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    case_id TEXT NOT NULL,
    metric TEXT NOT NULL,
    builds INTEGER NOT NULL,                    -- over all variants
    sd REAL NOT NULL,                           -- between builds, of the logarithm of the value
    PRIMARY KEY (session, case_id, metric)
) STRICT, WITHOUT ROWID;
CREATE INDEX layout_spread_by_case ON layout_spread (case_id, metric, session);
