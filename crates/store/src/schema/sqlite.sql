-- The tables of a results file. postgres.sql has the same tables for a PostgreSQL server. After the
-- first release, a change of the tables is a new step in schema.rs, and both files stay as they are.
--
-- Other programs are expected to read these tables, so names are whole words and column names include
-- the unit. A `seq` is the position of a row among those of its session, from 0, unless a comment says
-- otherwise. Triggers keep derived tables up to date, whichever program writes.


-- PROJECTS. Each has its own set of all these tables. The first set lists them.

CREATE TABLE project (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,                 -- empty: the first project
    is_public INTEGER NOT NULL DEFAULT 0,      -- readable without a token
    retention TEXT                             -- JSON; absent: keep everything
) STRICT;
INSERT INTO project (number, name) VALUES (1, '');


-- SESSIONS. The rows of a session are clustered (WITHOUT ROWID), because a session is read as a whole.
-- New rows are added only at the end of a session, so storing a run touches only two pages.

CREATE TABLE session (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, even after a deletion
    id TEXT NOT NULL UNIQUE,
    started_unix_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    command TEXT NOT NULL,                     -- JSON array of arguments
    design TEXT NOT NULL,                      -- JSON
    variants TEXT NOT NULL,                    -- JSON array
    environment TEXT NOT NULL,                 -- JSON
    plan TEXT,                                 -- JSON; absent in imported sessions
    project INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX session_by_state ON session (state, number);
CREATE INDEX session_by_start ON session (started_unix_ms);

CREATE TABLE tag (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_name ON tag (name, session);

CREATE TABLE metric (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    first_report INTEGER,                      -- in merged sessions: 65536 * the slot of the first report + the position in that slot
    PRIMARY KEY (session, seq),
    UNIQUE (session, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE origin (                          -- the measured code, if known
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    revision TEXT NOT NULL,                    -- commit id, or user-defined
    tree TEXT,                                 -- of the commit
    branch TEXT,
    dirty INTEGER NOT NULL,                    -- whether there were uncommitted changes
    detail TEXT NOT NULL,                      -- JSON: all details
    pull TEXT GENERATED ALWAYS AS (json_extract(detail, '$.pull')) VIRTUAL
) STRICT;
CREATE INDEX origin_by_revision ON origin (revision, session);
CREATE INDEX origin_by_branch ON origin (branch, session);
CREATE INDEX origin_by_pull ON origin (pull, session);

CREATE TABLE recorder (                        -- the recording process: tells a killed session from one in progress
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    machine_id TEXT,
    boot_id TEXT,                              -- of the kernel
    pid_namespace TEXT,
    pid INTEGER NOT NULL,
    started_ticks INTEGER                      -- since boot
) STRICT;

CREATE TABLE live_session (                    -- progress of a session during its measurement
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    at_unix_ms INTEGER NOT NULL,
    progress TEXT NOT NULL                     -- JSON
) STRICT;

CREATE TABLE live_load (                       -- a running load; its session is created at the end
    number INTEGER PRIMARY KEY,
    machine_id TEXT,                           -- of the process, as in recorder
    boot_id TEXT,
    pid_namespace TEXT,
    pid INTEGER NOT NULL,
    started_ticks INTEGER,
    begun_unix_ms INTEGER NOT NULL,
    at_unix_ms INTEGER NOT NULL,               -- of the last heartbeat
    progress TEXT NOT NULL                     -- JSON
) STRICT;


-- RESULTS of a session. The rows of a planned run also say whether it is done. Only a planned run
-- without rows, which is rare, is marked as done in another table.

CREATE TABLE benchmark_case (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,                          -- canonical: parameters sorted by name
    benchmark TEXT NOT NULL,
    parameters TEXT NOT NULL,                  -- JSON array of [name, value] in reported order
    UNIQUE (id, parameters)
) STRICT;
CREATE INDEX benchmark_case_by_benchmark ON benchmark_case (benchmark);

CREATE TABLE run (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,                      -- order of execution
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    variant TEXT NOT NULL,
    slot INTEGER NOT NULL,
    block INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    user_ns INTEGER,
    system_ns INTEGER,
    max_rss_bytes INTEGER,
    involuntary_switches INTEGER,
    notes TEXT,                                -- JSON array of sentences
    slot_done INTEGER NOT NULL,                -- 0: interrupted; resuming repeats the slot
    build INTEGER,                             -- which build of the variant's source, from 0; absent: the normal one
    voluntary_switches INTEGER,
    minor_faults INTEGER,
    major_faults INTEGER,
    migrations INTEGER,                        -- of the first thread
    kernel_stats TEXT,                         -- JSON: steal, pressure, frequency_mhz, throttled, load, temperature_c
    rejected_by TEXT,                          -- the rule that excluded the run
    machine INTEGER,                           -- seq in fleet_machine; absent: the session's environment
    superseded INTEGER,                        -- 1: its case was restarted on another machine
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
-- A session with millions of runs is read case by case.
CREATE INDEX run_by_case ON run (session, benchmark_case, seq) WHERE superseded IS NULL;

CREATE TABLE sample (                          -- all samples of one run and metric
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,                      -- of the run
    metric INTEGER NOT NULL,                   -- seq of the metric
    readings BLOB NOT NULL,                    -- f64, little endian
    elapsed_ns BLOB,                           -- u64, little endian; all bits set: unknown
    iterations BLOB,                           -- f64, little endian; unknown: see read.rs
    positions BLOB,                            -- u32, little endian; absent: 0, 1, 2 ...
    PRIMARY KEY (session, seq, metric),
    FOREIGN KEY (session, seq) REFERENCES run ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE load (                            -- details of an HTTP load; not in run, because few reports read them
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,                      -- of the run
    detail TEXT NOT NULL,                      -- JSON: histograms, counts of outcomes, progress over time
    PRIMARY KEY (session, seq),
    FOREIGN KEY (session, seq) REFERENCES run ON DELETE CASCADE
) STRICT;

CREATE TABLE profile (                         -- of a case, from a run that was recorded and not timed
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    variant TEXT NOT NULL,
    detail TEXT NOT NULL,                      -- JSON: folded stacks, or the reason why there are none
    PRIMARY KEY (session, seq),
    UNIQUE (session, benchmark_case, variant)
) STRICT;

CREATE TABLE failure (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    slot INTEGER,
    slot_done INTEGER NOT NULL,                -- as in run
    skipped INTEGER NOT NULL,                  -- 1: the benchmark reported that it cannot run here
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE empty_slot (                      -- done, but without a run or failure
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    slot INTEGER NOT NULL,
    PRIMARY KEY (session, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE decided_case (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    case_id TEXT NOT NULL,
    saved_runs INTEGER NOT NULL,
    PRIMARY KEY (session, case_id)
) STRICT, WITHOUT ROWID;

-- Variation between builds of one source. Later sessions with a single build are compared against it.
CREATE TABLE layout_spread (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    case_id TEXT NOT NULL,
    metric TEXT NOT NULL,
    builds INTEGER NOT NULL,                   -- over all variants
    sd REAL NOT NULL,                          -- between builds, of the logarithm of the value
    PRIMARY KEY (session, case_id, metric)
) STRICT, WITHOUT ROWID;
CREATE INDEX layout_spread_by_case ON layout_spread (case_id, metric, session);

CREATE TABLE calibration (                     -- false alarms when a machine is compared with itself
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    host TEXT,
    cpu TEXT,                                  -- processor model
    cpus INTEGER,                              -- processors available
    started_unix_ms INTEGER NOT NULL,
    comparisons INTEGER NOT NULL,
    false_alarms INTEGER NOT NULL,
    expected_low INTEGER NOT NULL,             -- expected false alarms: from
    expected_high INTEGER NOT NULL,            -- to
    result TEXT NOT NULL AS (CASE              -- for other programs
        WHEN false_alarms < expected_low THEN 'too few false alarms'
        WHEN false_alarms > expected_high THEN 'too many false alarms'
        ELSE 'calibrated' END) VIRTUAL
) STRICT;
CREATE INDEX calibration_by_machine ON calibration (host, session);


-- FLEETS: the machines of a session that another machine coordinated, the shards assigned to each, and
-- the origin of every block. In a session without a fleet, runs refer to no machine.

CREATE TABLE fleet_machine (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,                          -- as in machine
    detail TEXT NOT NULL,                      -- JSON: name, labels, class, environment, clock, speed probes
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE shard (                           -- unit of work for one machine
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    machine INTEGER NOT NULL,                  -- seq in fleet_machine
    jobs TEXT NOT NULL,                        -- JSON array of indices in the plan
    stratum INTEGER NOT NULL,
    attempt INTEGER NOT NULL,                  -- the last one, from 0
    engine_id TEXT,                            -- the engine's id
    state TEXT NOT NULL,                       -- waiting, sent, running, done, lost
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE block_origin (                    -- fencing: a block is stored once, whoever sends it
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    job INTEGER NOT NULL,                      -- index in the plan
    block INTEGER NOT NULL,
    machine INTEGER NOT NULL,                  -- seq in fleet_machine
    shard INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (session, job, block)
) STRICT, WITHOUT ROWID;


-- LISTS derived from the tables above, so that sessions can be listed and filtered without a scan of
-- all sessions and runs.

CREATE TABLE session_case (                    -- the number of runs of each case
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    runs INTEGER NOT NULL,
    ended_unix_ms INTEGER NOT NULL,            -- of the last run
    PRIMARY KEY (session, benchmark_case)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_case_by_case ON session_case (benchmark_case, session, ended_unix_ms, runs);
CREATE TRIGGER run_counted AFTER INSERT ON run BEGIN
    INSERT INTO session_case
    VALUES (new.session, new.benchmark_case, 1, new.started_unix_ms + new.wall_ns / 1000000)
    ON CONFLICT DO UPDATE SET runs = runs + 1,
                              ended_unix_ms = max(ended_unix_ms, excluded.ended_unix_ms);
END;
CREATE TRIGGER run_uncounted AFTER DELETE ON run BEGIN
    UPDATE session_case SET runs = runs - 1
    WHERE session = old.session AND benchmark_case = old.benchmark_case;
    DELETE FROM session_case
    WHERE session = old.session AND benchmark_case = old.benchmark_case AND runs = 0;
END;

CREATE TABLE benchmark_session (               -- sessions with a run of a benchmark
    benchmark TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (benchmark, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX benchmark_session_by_session ON benchmark_session (session);
CREATE TRIGGER benchmark_measured AFTER INSERT ON session_case BEGIN
    INSERT INTO benchmark_session
    SELECT benchmark, new.session FROM benchmark_case WHERE number = new.benchmark_case
    ON CONFLICT DO NOTHING;
END;
-- If the whole session is deleted, its rows are, too.
CREATE TRIGGER benchmark_unmeasured AFTER DELETE ON session_case
WHEN EXISTS (SELECT 1 FROM session WHERE number = old.session) BEGIN
    DELETE FROM benchmark_session
    WHERE session = old.session
    AND benchmark = (SELECT benchmark FROM benchmark_case WHERE number = old.benchmark_case)
    AND NOT EXISTS (SELECT 1 FROM session_case AS other
                    JOIN benchmark_case AS its ON its.number = other.benchmark_case
                    WHERE other.session = old.session
                    AND its.benchmark = benchmark_session.benchmark);
END;

CREATE TABLE variant_session (                 -- sessions with a variant of this name
    variant TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (variant, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX variant_session_by_session ON variant_session (session);
CREATE TRIGGER session_variants_inserted AFTER INSERT ON session BEGIN
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;
CREATE TRIGGER session_variants_updated AFTER UPDATE OF variants ON session BEGIN
    DELETE FROM variant_session WHERE session = new.number;
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;


-- HISTORY: the points of each session and series, the revisions of the branches to which the points
-- belong, and the changes found along these branches. Points are derived from sessions; triage, renames
-- and annotations are user input.

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

CREATE TABLE branch_revision (                 -- first-parent chain of a branch as last seen
    project INTEGER NOT NULL REFERENCES project,
    branch TEXT NOT NULL,
    position INTEGER NOT NULL,                 -- from 0, the oldest
    revision INTEGER NOT NULL REFERENCES revision,
    PRIMARY KEY (project, branch, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX branch_revision_by_revision ON branch_revision (revision, project, branch);

-- The sessions that the chain of a branch was built from, if it is in the order of measuring.
CREATE TABLE measured_order (
    branch TEXT PRIMARY KEY,                   -- as in branch_revision
    sessions INTEGER NOT NULL,                 -- number of sessions with points
    number_sum INTEGER NOT NULL                -- the sum of their numbers
) STRICT, WITHOUT ROWID;

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
    environment_facts TEXT NOT NULL            -- JSON array of [name, value]: settings that can affect results
) STRICT;
CREATE INDEX session_machine_by_machine ON session_machine (machine, session);

CREATE TABLE series (
    number INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    case_id TEXT NOT NULL,                     -- as measured, before renames
    variant TEXT NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    seq INTEGER NOT NULL,                      -- lowest seq of the metric in any session; 0: it was primary in one
    UNIQUE (project, case_id, variant, metric, unit, better)
) STRICT;

CREATE TABLE point (                           -- a session's result for a series
    series INTEGER NOT NULL REFERENCES series,
    at_unix_ms INTEGER NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    seq INTEGER NOT NULL,                      -- a session may measure several revisions
    revision INTEGER REFERENCES revision,
    machine INTEGER NOT NULL REFERENCES machine,
    value REAL NOT NULL,                       -- median over runs
    low REAL,
    high REAL,
    runs INTEGER NOT NULL,
    spread REAL,                               -- of the logarithms of the runs: 1.4826 median absolute deviations
    kind TEXT NOT NULL,                        -- measured, imported, confirm, bisect, backfill
    dirty INTEGER NOT NULL,                    -- with uncommitted changes
    benchmark_digest TEXT,
    PRIMARY KEY (series, at_unix_ms, session, seq)
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
    triage TEXT NOT NULL DEFAULT 'open',       -- open, accepted, wrong, fixed
    note TEXT,
    triaged_by TEXT,
    triaged_unix_ms INTEGER,
    UNIQUE (series, branch, after)
) STRICT;

CREATE TABLE rename (                          -- of benchmarks and cases; applied when reading
    project INTEGER NOT NULL REFERENCES project,
    old TEXT NOT NULL,
    new TEXT NOT NULL,
    PRIMARY KEY (project, old)
) STRICT, WITHOUT ROWID;

CREATE TABLE annotation (                      -- of a revision, on the axis of charts
    number INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    revision TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE pending_summary (                 -- finished sessions without points yet
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE
) STRICT;
CREATE TABLE summary_total (                   -- sessions with points: their count, and the sum of their numbers
    id INTEGER PRIMARY KEY,                    -- 1: there is one row
    sessions INTEGER NOT NULL,
    number_sum INTEGER NOT NULL
) STRICT;
INSERT INTO summary_total (id, sessions, number_sum) VALUES (1, 0, 0);
CREATE TRIGGER session_state_inserted AFTER INSERT ON session
WHEN new.state IN ('complete', 'imported') BEGIN
    INSERT INTO pending_summary VALUES (new.number);
END;
CREATE TRIGGER session_state_updated AFTER UPDATE OF state ON session BEGIN
    DELETE FROM pending_summary WHERE session = new.number;
    INSERT INTO pending_summary SELECT new.number WHERE new.state IN ('complete', 'imported')
    AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session = new.number);
END;
CREATE TRIGGER session_machine_inserted AFTER INSERT ON session_machine BEGIN
    DELETE FROM pending_summary WHERE session = new.session;
    UPDATE summary_total SET sessions = sessions + 1, number_sum = number_sum + new.session;
END;
-- If the whole session is deleted, no summary is pending.
CREATE TRIGGER session_machine_deleted AFTER DELETE ON session_machine BEGIN
    UPDATE summary_total SET sessions = sessions - 1, number_sum = number_sum - old.session;
    INSERT INTO pending_summary SELECT number FROM session
    WHERE number = old.session AND state IN ('complete', 'imported');
END;


-- A CACHE that avoids searching a long series from the beginning. It is derived from points and may be
-- deleted. A detector state records which points it has seen.

CREATE TABLE detector_state (                  -- of the search for changes in a series along a branch
    series INTEGER NOT NULL REFERENCES series,
    branch TEXT NOT NULL,
    seq INTEGER NOT NULL,                      -- one for each benchmark digest, the most recently measured one last
    state BLOB NOT NULL,
    PRIMARY KEY (series, branch, seq)
) STRICT, WITHOUT ROWID;


-- TEAM SERVER: tokens and their audit log, which are stored only with the first project; sessions that
-- were uploaded, queued for upload, or deleted; comments on pull requests.

CREATE TABLE token (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                   -- part of the token; not secret
    digest BLOB NOT NULL,                      -- SHA-256 of the whole token, which is not stored
    name TEXT NOT NULL,                        -- user-defined
    scopes TEXT NOT NULL,                      -- JSON array: read, push, triage, admin
    project TEXT,                              -- the only permitted one; absent: all
    branches TEXT,                             -- JSON array of permitted branches; absent: all
    machines TEXT,                             -- JSON array of machines, likewise
    created_unix_ms INTEGER NOT NULL,
    expires_unix_ms INTEGER,
    used_unix_ms INTEGER,                      -- hourly resolution
    revoked_unix_ms INTEGER
) STRICT;

CREATE TABLE audit (                           -- append-only
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_unix_ms INTEGER NOT NULL,
    actor TEXT NOT NULL,                       -- name of the token, 'start key', 'command line' or empty
    token TEXT,                                -- token id
    address TEXT,                              -- of the client
    project TEXT,
    action TEXT NOT NULL,                      -- such as 'push', 'triage', 'token revoke'
    subject TEXT,                              -- the affected object
    result TEXT NOT NULL                       -- 'done', or the reason for the refusal
) STRICT;
CREATE INDEX audit_by_time ON audit (at_unix_ms);

CREATE TABLE upload (                          -- of a session
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                   -- of the session
    session INTEGER REFERENCES session ON DELETE CASCADE,
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    digest BLOB,                               -- SHA-256 of all its lines
    token TEXT,                                -- id of the uploading token
    begun_unix_ms INTEGER NOT NULL,            -- the same as at_unix_ms
    at_unix_ms INTEGER NOT NULL                -- of the request
) STRICT;
CREATE INDEX upload_by_session ON upload (session);

CREATE TABLE outbox (                          -- queued and sent uploads; deleted only with their session
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    url TEXT NOT NULL,                         -- of the project on the server
    added_unix_ms INTEGER NOT NULL,
    claimed_until_unix_ms INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_unix_ms INTEGER NOT NULL DEFAULT 0,   -- next attempt not before
    state TEXT NOT NULL DEFAULT 'waiting',     -- waiting, refused, sent
    reason TEXT,                               -- why the last attempt failed
    sent_unix_ms INTEGER,
    PRIMARY KEY (session, url)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_by_state ON outbox (state, next_unix_ms);

CREATE TABLE deleted_session (                 -- refuses later uploads of these sessions
    id TEXT PRIMARY KEY,                       -- of the session
    number INTEGER NOT NULL,                   -- its former number
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_unix_ms INTEGER NOT NULL,
    lines BLOB                                 -- JSON Lines, gzip: while the deletion can be undone
) STRICT, WITHOUT ROWID;

CREATE TABLE comment (                         -- on a pull request, as it was posted
    number INTEGER PRIMARY KEY,
    forge TEXT NOT NULL,                       -- github, gitlab, gitea
    repository TEXT NOT NULL,
    pull TEXT NOT NULL,                        -- number of the pull request
    revision TEXT NOT NULL,                    -- the head that it reports on
    posted_unix_ms INTEGER NOT NULL,
    url TEXT,
    text TEXT NOT NULL                         -- Markdown
) STRICT;
CREATE INDEX comment_by_pull ON comment (pull, posted_unix_ms);

CREATE TABLE comment_job (                     -- pending comments of the server on a pull request
    pull TEXT PRIMARY KEY,                     -- its number
    revision TEXT NOT NULL,                    -- the head that it reports on
    session INTEGER REFERENCES session ON DELETE CASCADE,  -- its newest one; absent during the upload
    added_unix_ms INTEGER NOT NULL,
    claimed_until_unix_ms INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_unix_ms INTEGER NOT NULL DEFAULT 0,   -- next attempt not before
    state TEXT NOT NULL DEFAULT 'waiting',     -- waiting, refused, posted
    reason TEXT                                -- why the last attempt failed
) STRICT, WITHOUT ROWID;
CREATE INDEX comment_job_by_session ON comment_job (session);

CREATE TABLE setting (                         -- of the server
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                        -- JSON
) STRICT, WITHOUT ROWID;
