CREATE TABLE project (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE                  -- empty: the one that contains the file
) STRICT;
INSERT INTO project (number, name) VALUES (1, '');
ALTER TABLE session ADD COLUMN project INTEGER NOT NULL DEFAULT 1;

CREATE TABLE revision (                        -- a commit, or a user-defined revision
    number INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    id TEXT NOT NULL,
    tree TEXT,
    parents TEXT,                              -- JSON array of ids
    committed_unix_ms INTEGER,
    subject TEXT,
    UNIQUE (project, id)
) STRICT;
CREATE INDEX revision_by_tree ON revision (project, tree);

CREATE TABLE line (                            -- first-parent chain of a branch as last seen
    project INTEGER NOT NULL REFERENCES project,
    branch TEXT NOT NULL,
    position INTEGER NOT NULL,                 -- from 0, the oldest
    revision INTEGER NOT NULL REFERENCES revision,
    PRIMARY KEY (project, branch, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX line_by_revision ON line (revision, project, branch);

CREATE TABLE machine (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                   -- identifies the machine
    name TEXT,                                 -- of the host
    label TEXT,                                -- user-defined
    class TEXT,                                -- processor and number of processors
    first_unix_ms INTEGER NOT NULL,
    last_unix_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE session_machine (                 -- present once the session's points exist
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    machine INTEGER NOT NULL REFERENCES machine,
    surroundings TEXT NOT NULL                 -- JSON array of [name, value]: settings that can affect results
) STRICT;

CREATE TABLE series (
    number INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    case_id TEXT NOT NULL,                     -- as measured, before renames
    variant TEXT NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    place INTEGER NOT NULL,                    -- of the metric in the newest session; 0: the primary one
    UNIQUE (project, case_id, variant, metric, unit, better)
) STRICT;

CREATE TABLE point (                           -- a session's result for a series
    series INTEGER NOT NULL REFERENCES series,
    at_unix_ms INTEGER NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,                    -- in the session, from 0: a session may measure several revisions
    revision INTEGER REFERENCES revision,
    machine INTEGER NOT NULL REFERENCES machine,
    value REAL NOT NULL,                       -- median over runs
    low REAL,
    high REAL,
    runs INTEGER NOT NULL,
    spread REAL,                               -- of the logarithms of the runs: 1.4826 median absolute deviations
    kind TEXT NOT NULL,                        -- measured, imported, confirm, bisect, backfill
    dirty INTEGER NOT NULL,                    -- with uncommitted changes
    work TEXT,                                 -- digest of the benchmark
    PRIMARY KEY (series, at_unix_ms, session, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX point_by_session ON point (session);

CREATE TABLE change (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    series INTEGER NOT NULL REFERENCES series,
    branch TEXT NOT NULL,
    before INTEGER NOT NULL REFERENCES revision,
    after INTEGER NOT NULL REFERENCES revision,
    shape TEXT NOT NULL,                       -- step or drift
    evidence REAL NOT NULL,                    -- a normal deviate
    ratio REAL NOT NULL,
    low REAL,
    high REAL,
    state TEXT NOT NULL,                       -- suspected, found, confirmed, refuted, withdrawn
    confirmed_by INTEGER REFERENCES session ON DELETE SET NULL,
    judged TEXT NOT NULL DEFAULT 'open',       -- open, accepted, wrong, fixed
    note TEXT,
    judged_by TEXT,
    judged_unix_ms INTEGER,
    UNIQUE (series, branch, after)
) STRICT;

CREATE TABLE renamed (                         -- benchmarks and cases; applied when reading
    project INTEGER NOT NULL REFERENCES project,
    old TEXT NOT NULL,
    new TEXT NOT NULL,
    PRIMARY KEY (project, old)
) STRICT, WITHOUT ROWID;

CREATE TABLE remark (                          -- annotates a revision on the axis
    number INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    revision TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE walk (                            -- change detection state of a line; may be deleted
    series INTEGER NOT NULL REFERENCES series,
    branch TEXT NOT NULL,
    points INTEGER NOT NULL,
    digest BLOB NOT NULL,                      -- of those points
    state BLOB NOT NULL,
    PRIMARY KEY (series, branch)
) STRICT, WITHOUT ROWID;
