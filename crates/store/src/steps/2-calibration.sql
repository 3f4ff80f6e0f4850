CREATE TABLE calibration (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    host TEXT,
    cpu TEXT,                                  -- processor model
    cpus INTEGER,                              -- processors available
    started_unix_ms INTEGER NOT NULL,
    comparisons INTEGER NOT NULL,
    false_alarms INTEGER NOT NULL,
    expected_low INTEGER NOT NULL,             -- expected false alarms: from
    expected_high INTEGER NOT NULL,            -- to
    result TEXT NOT NULL AS (CASE
        WHEN false_alarms < expected_low THEN 'too few false alarms'
        WHEN false_alarms > expected_high THEN 'too many false alarms'
        ELSE 'calibrated' END) VIRTUAL
) STRICT;
CREATE INDEX calibration_by_machine ON calibration (host, session);
