CREATE TABLE profile (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    place INTEGER NOT NULL,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    variant TEXT NOT NULL,
    detail TEXT NOT NULL,                      -- JSON
    PRIMARY KEY (session, place),
    UNIQUE (session, benchmark_case, variant)
) STRICT;
