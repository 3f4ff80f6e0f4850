CREATE TABLE session_case (
    session BIGINT NOT NULL REFERENCES session ON DELETE CASCADE,
    benchmark_case BIGINT NOT NULL REFERENCES benchmark_case,
    runs BIGINT NOT NULL,
    ended_unix_ms BIGINT NOT NULL,             -- of the last run
    PRIMARY KEY (session, benchmark_case)
);
CREATE FUNCTION run_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO session_case
    VALUES (new.session, new.benchmark_case, 1, new.started_unix_ms + new.wall_ns / 1000000)
    ON CONFLICT (session, benchmark_case) DO UPDATE SET
        runs = session_case.runs + 1,
        ended_unix_ms = greatest(session_case.ended_unix_ms, excluded.ended_unix_ms);
    RETURN NULL;
END $$;
CREATE TRIGGER run_counted AFTER INSERT ON run FOR EACH ROW EXECUTE FUNCTION run_counted();
CREATE FUNCTION run_uncounted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE session_case SET runs = runs - 1
    WHERE session = old.session AND benchmark_case = old.benchmark_case;
    DELETE FROM session_case
    WHERE session = old.session AND benchmark_case = old.benchmark_case AND runs = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER run_uncounted AFTER DELETE ON run FOR EACH ROW EXECUTE FUNCTION run_uncounted();
