CREATE TABLE comment_job (                     -- pending comments of the server on a pull request
    pull TEXT PRIMARY KEY,                     -- its number
    revision TEXT NOT NULL,                    -- the head that it reports on
    session INTEGER REFERENCES session ON DELETE CASCADE,  -- its newest one; absent during the upload
    added_unix_ms INTEGER NOT NULL,
    claimed_until_unix_ms INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_unix_ms INTEGER NOT NULL DEFAULT 0,   -- next attempt not before
    state TEXT NOT NULL DEFAULT 'waiting',     -- waiting, refused, said
    reason TEXT                                -- why the last attempt failed
) STRICT, WITHOUT ROWID;
CREATE INDEX comment_job_by_session ON comment_job (session);

CREATE TABLE benchmark_session (               -- sessions with a run of a benchmark
    benchmark TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (benchmark, session)
) STRICT, WITHOUT ROWID;
INSERT INTO benchmark_session
SELECT DISTINCT benchmark, session FROM session_case
JOIN benchmark_case ON benchmark_case.number = session_case.benchmark_case;
CREATE INDEX benchmark_session_by_session ON benchmark_session (session);
CREATE INDEX benchmark_case_by_benchmark ON benchmark_case (benchmark);
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

CREATE TABLE live_load (                       -- a running load; its session is created at the end
    number INTEGER PRIMARY KEY,
    machine TEXT,                              -- of the process, as in recorder
    boot TEXT,
    numbering TEXT,
    pid INTEGER NOT NULL,
    started_ticks INTEGER,
    begun_unix_ms INTEGER NOT NULL,
    at_unix_ms INTEGER NOT NULL,               -- of the last heartbeat
    progress TEXT NOT NULL                     -- JSON
) STRICT;

CREATE TABLE line_mark (                       -- sessions that a line ordered by measuring time was built from
    branch TEXT PRIMARY KEY,                   -- as in line
    sessions INTEGER NOT NULL,                 -- number of sessions with points
    numbers INTEGER NOT NULL                   -- the sum of their numbers
) STRICT, WITHOUT ROWID;
