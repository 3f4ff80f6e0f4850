ALTER TABLE project ADD COLUMN is_public INTEGER NOT NULL DEFAULT 0;  -- readable without a token
ALTER TABLE project ADD COLUMN keep TEXT;      -- JSON: retention; absent: keep everything

CREATE TABLE token (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                   -- part of the token; not secret
    digest BLOB NOT NULL,                      -- SHA-256 of the whole token, which is not stored
    name TEXT NOT NULL,                        -- user-defined
    scopes TEXT NOT NULL,                      -- JSON array: read, push, judge, admin
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
    who TEXT NOT NULL,                         -- name of the token, 'start key', 'command line' or empty
    token TEXT,                                -- token id
    address TEXT,                              -- of the client
    project TEXT,
    what TEXT NOT NULL,                        -- such as 'push', 'judge', 'token revoke'
    subject TEXT,                              -- the affected object
    result TEXT NOT NULL                       -- 'done', or the reason for the refusal
) STRICT;
CREATE INDEX audit_by_time ON audit (at_unix_ms);

CREATE TABLE upload (                          -- of a session, in progress or complete
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                   -- of the session
    session INTEGER REFERENCES session ON DELETE CASCADE,  -- once complete
    lines INTEGER NOT NULL,                    -- received so far
    bytes INTEGER NOT NULL,
    digest BLOB,                               -- SHA-256 of all its lines, once complete
    token TEXT,                                -- id of the uploading token
    begun_unix_ms INTEGER NOT NULL,
    at_unix_ms INTEGER NOT NULL                -- of the last part
) STRICT;
CREATE INDEX upload_by_session ON upload (session);

CREATE TABLE upload_part (                     -- until all have arrived
    upload INTEGER NOT NULL REFERENCES upload ON DELETE CASCADE,
    line INTEGER NOT NULL,                     -- the first, from 0
    lines INTEGER NOT NULL,
    digest BLOB NOT NULL,                      -- of the text
    text BLOB NOT NULL,
    PRIMARY KEY (upload, line)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (                          -- queued uploads; unsent ones are never deleted
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

CREATE TABLE deleted (                         -- refuses later uploads of these sessions
    id TEXT PRIMARY KEY,                       -- of the session
    number INTEGER NOT NULL,                   -- its former number
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    at_unix_ms INTEGER NOT NULL,
    lines BLOB                                 -- JSON Lines, gzip: while the deletion can be undone
) STRICT, WITHOUT ROWID;

CREATE TABLE live (                            -- progress of a session during its measurement
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    at_unix_ms INTEGER NOT NULL,
    progress TEXT NOT NULL                     -- JSON
) STRICT;

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

CREATE TABLE setting (                         -- of the server
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL                        -- JSON
) STRICT, WITHOUT ROWID;

ALTER TABLE origin ADD COLUMN pull TEXT GENERATED ALWAYS AS (json_extract(detail, '$.pull')) VIRTUAL;
CREATE INDEX origin_by_pull ON origin (pull, session);
CREATE INDEX session_by_state ON session (state, number);
CREATE INDEX session_by_start ON session (started_unix_ms);
CREATE INDEX session_machine_by_machine ON session_machine (machine, session);
CREATE INDEX session_case_by_case ON session_case (benchmark_case, session, ended_unix_ms, runs);
