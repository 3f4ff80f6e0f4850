CREATE TABLE session_case (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    benchmark_case INTEGER NOT NULL REFERENCES benchmark_case,
    runs INTEGER NOT NULL,
    ended_unix_ms INTEGER NOT NULL,            -- of the last run
    PRIMARY KEY (session, benchmark_case)
) STRICT, WITHOUT ROWID;
INSERT INTO session_case
SELECT session, benchmark_case, count(*), max(started_unix_ms + wall_ns / 1000000) FROM run
GROUP BY session, benchmark_case;
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
