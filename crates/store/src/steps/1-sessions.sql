CREATE TABLE session (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, even after a deletion
    id TEXT NOT NULL UNIQUE,
    started_unix_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    command TEXT NOT NULL,                     -- JSON array of arguments
    design TEXT NOT NULL,                      -- JSON
    variants TEXT NOT NULL,                    -- JSON array
    environment TEXT NOT NULL,                 -- JSON
    plan TEXT                                  -- JSON; absent in imported sessions
) STRICT;

CREATE TABLE tag (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_name ON tag (name, session);

CREATE TABLE metric (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    PRIMARY KEY (session, place),
    UNIQUE (session, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE benchmark_case (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,                          -- canonical: parameters sorted by name
    benchmark TEXT NOT NULL,
    parameters TEXT NOT NULL,                  -- JSON array of [name, value] in reported order
    UNIQUE (id, parameters)
) STRICT;

CREATE TABLE run (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,                    -- order of execution, from 0
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
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (                          -- all samples of one run and metric
    session INTEGER NOT NULL,
    place INTEGER NOT NULL,                    -- of the run
    metric INTEGER NOT NULL,                   -- place of the metric
    readings BLOB NOT NULL,                    -- f64, little endian
    elapsed_ns BLOB,                           -- u64, little endian; all bits set: unknown
    iterations BLOB,                           -- f64, little endian; unknown: see samples.rs
    positions BLOB,                            -- u32, little endian; absent: 0, 1, 2 ...
    PRIMARY KEY (session, place, metric),
    FOREIGN KEY (session, place) REFERENCES run ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    slot INTEGER,
    slot_done INTEGER NOT NULL,                -- as in run
    skipped INTEGER NOT NULL,                  -- 1: the benchmark reported that it cannot run here
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE empty_slot (                      -- done, but without a run or failure
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    slot INTEGER NOT NULL,
    PRIMARY KEY (session, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE case_decided (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    id TEXT NOT NULL,
    saved_runs INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
