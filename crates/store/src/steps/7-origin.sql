CREATE TABLE origin (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    revision TEXT NOT NULL,                    -- commit id, or user-defined
    tree TEXT,                                 -- of the commit
    branch TEXT,
    dirty INTEGER NOT NULL,                    -- whether there were uncommitted changes
    detail TEXT NOT NULL                       -- JSON: all details
) STRICT;
CREATE INDEX origin_by_revision ON origin (revision, session);
CREATE INDEX origin_by_branch ON origin (branch, session);
