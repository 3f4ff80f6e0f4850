CREATE TABLE origin (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    revision TEXT NOT NULL,                    -- the id of a commit, or what the user calls it
    tree TEXT,                                 -- of the commit
    branch TEXT,
    dirty INTEGER NOT NULL,                    -- whether something was changed and not committed
    detail TEXT NOT NULL                       -- JSON: all that is known
) STRICT;
CREATE INDEX origin_by_revision ON origin (revision, session);
CREATE INDEX origin_by_branch ON origin (branch, session);
