CREATE TABLE load (
    session INTEGER NOT NULL,
    place INTEGER NOT NULL,                    -- of the run
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place),
    FOREIGN KEY (session, place) REFERENCES run ON DELETE CASCADE
) STRICT;
