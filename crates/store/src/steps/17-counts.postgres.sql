-- The runs of a session are inserted many at a time: count them per statement, not per row.
DROP TRIGGER run_counted ON run;
CREATE OR REPLACE FUNCTION run_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO session_case
    SELECT session, benchmark_case, count(*), max(started_unix_ms + wall_ns / 1000000)
    FROM came GROUP BY session, benchmark_case ORDER BY session, benchmark_case
    ON CONFLICT (session, benchmark_case) DO UPDATE SET
        runs = session_case.runs + excluded.runs,
        ended_unix_ms = greatest(session_case.ended_unix_ms, excluded.ended_unix_ms);
    RETURN NULL;
END $$;
CREATE TRIGGER run_counted AFTER INSERT ON run
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION run_counted();
DROP TRIGGER run_uncounted ON run;
CREATE OR REPLACE FUNCTION run_uncounted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE session_case SET runs = session_case.runs - gone.runs
    FROM (SELECT session, benchmark_case, count(*) AS runs FROM went
          GROUP BY session, benchmark_case) AS gone
    WHERE session_case.session = gone.session
    AND session_case.benchmark_case = gone.benchmark_case;
    DELETE FROM session_case USING went
    WHERE session_case.session = went.session
    AND session_case.benchmark_case = went.benchmark_case AND runs = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER run_uncounted AFTER DELETE ON run
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION run_uncounted();
