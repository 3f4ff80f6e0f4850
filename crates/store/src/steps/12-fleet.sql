CREATE TABLE fleet_machine (                   -- machines of a session whose coordinator was another machine
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,                          -- as in machine
    detail TEXT NOT NULL,                      -- JSON: name, labels, class, environment, clock, pulses
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE parcel (                          -- unit of work for one machine
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    machine INTEGER NOT NULL,                  -- place in fleet_machine
    jobs TEXT NOT NULL,                        -- JSON array of places in the plan
    stratum INTEGER NOT NULL,
    attempt INTEGER NOT NULL,                  -- the last one, from 0
    engine_id TEXT,                            -- the engine's id
    state TEXT NOT NULL,                       -- waiting, sent, running, done, lost
    PRIMARY KEY (session, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE block_origin (                    -- fencing: a block is stored once, whoever sends it
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    job INTEGER NOT NULL,                      -- place in the plan
    block INTEGER NOT NULL,
    machine INTEGER NOT NULL,                  -- place in fleet_machine
    parcel INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (session, job, block)
) STRICT, WITHOUT ROWID;

ALTER TABLE run ADD COLUMN machine INTEGER;    -- place in fleet_machine; absent: the session's environment
ALTER TABLE run ADD COLUMN set_aside INTEGER;  -- 1: its case was restarted on another machine
ALTER TABLE metric ADD COLUMN first INTEGER;   -- 65536 * the slot that reported it first + its place there, where blocks are merged
