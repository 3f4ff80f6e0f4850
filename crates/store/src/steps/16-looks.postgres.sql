CREATE TABLE variant_session (                 -- sessions with a variant of this name
    variant TEXT NOT NULL,
    session BIGINT NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (variant, session)
);
-- JSON may contain U+0000, which the server cannot store.
INSERT INTO variant_session
SELECT DISTINCT named.value ->> 'name', session.number FROM session,
    json_array_elements(CAST(replace(session.variants, '\u0000', '\ufffd') AS JSON)) AS named
WHERE named.value ->> 'name' IS NOT NULL;
CREATE INDEX variant_session_by_session ON variant_session (session);
CREATE FUNCTION variants_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM variant_session WHERE session = new.number;
    INSERT INTO variant_session
    SELECT DISTINCT named.value ->> 'name', new.number
    FROM json_array_elements(CAST(replace(new.variants, '\u0000', '\ufffd') AS JSON)) AS named
    WHERE named.value ->> 'name' IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER variants_came AFTER INSERT OR UPDATE OF variants ON session
    FOR EACH ROW EXECUTE FUNCTION variants_came();
-- With the numbers, which are then read from the index alone.
DROP INDEX session_by_start;
CREATE INDEX session_by_start ON session (started_unix_ms, number);

CREATE TABLE unsummarised (                    -- finished sessions without points yet
    session BIGINT PRIMARY KEY REFERENCES session ON DELETE CASCADE
);
INSERT INTO unsummarised
SELECT number FROM session WHERE state IN ('complete', 'imported')
AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session_machine.session = session.number);
CREATE TABLE summarised (                      -- the others: their count, and the sum of their numbers
    one BIGINT PRIMARY KEY,                    -- 1: there is one row
    sessions BIGINT NOT NULL,
    numbers BIGINT NOT NULL
);
INSERT INTO summarised SELECT 1, count(*), coalesce(sum(session), 0) FROM session_machine;
CREATE FUNCTION session_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM unsummarised WHERE session = new.number;
    INSERT INTO unsummarised SELECT new.number WHERE new.state IN ('complete', 'imported')
    AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session = new.number);
    RETURN NULL;
END $$;
CREATE TRIGGER session_ended AFTER INSERT OR UPDATE OF state ON session
    FOR EACH ROW EXECUTE FUNCTION session_ended();
CREATE FUNCTION points_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM unsummarised WHERE session = new.session;
    UPDATE summarised SET sessions = sessions + 1, numbers = numbers + new.session;
    RETURN NULL;
END $$;
CREATE TRIGGER points_came AFTER INSERT ON session_machine
    FOR EACH ROW EXECUTE FUNCTION points_came();
-- If the whole session is deleted, no summary is pending.
CREATE FUNCTION points_went() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE summarised SET sessions = sessions - 1, numbers = numbers - old.session;
    INSERT INTO unsummarised SELECT number FROM session
    WHERE number = old.session AND state IN ('complete', 'imported');
    RETURN NULL;
END $$;
CREATE TRIGGER points_went AFTER DELETE ON session_machine
    FOR EACH ROW EXECUTE FUNCTION points_went();
