CREATE TABLE variant_session (                 -- sessions with a variant of this name
    variant TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (variant, session)
) STRICT, WITHOUT ROWID;
INSERT INTO variant_session
SELECT DISTINCT json_extract(named.value, '$.name'), session.number
FROM session, json_each(session.variants) AS named
WHERE json_extract(named.value, '$.name') IS NOT NULL;
CREATE INDEX variant_session_by_session ON variant_session (session);
CREATE TRIGGER variants_came AFTER INSERT ON session BEGIN
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;
CREATE TRIGGER variants_changed AFTER UPDATE OF variants ON session BEGIN
    DELETE FROM variant_session WHERE session = new.number;
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;

CREATE TABLE unsummarised (                    -- finished sessions without points yet
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE
) STRICT;
INSERT INTO unsummarised
SELECT number FROM session WHERE state IN ('complete', 'imported')
AND number NOT IN (SELECT session FROM session_machine);
CREATE TABLE summarised (                      -- the others: their count, and the sum of their numbers
    one INTEGER PRIMARY KEY,                   -- 1: there is one row
    sessions INTEGER NOT NULL,
    numbers INTEGER NOT NULL
) STRICT;
INSERT INTO summarised SELECT 1, count(*), coalesce(sum(session), 0) FROM session_machine;
CREATE TRIGGER session_came AFTER INSERT ON session
WHEN new.state IN ('complete', 'imported') BEGIN
    INSERT INTO unsummarised VALUES (new.number);
END;
CREATE TRIGGER session_ended AFTER UPDATE OF state ON session BEGIN
    DELETE FROM unsummarised WHERE session = new.number;
    INSERT INTO unsummarised SELECT new.number WHERE new.state IN ('complete', 'imported')
    AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session = new.number);
END;
CREATE TRIGGER points_came AFTER INSERT ON session_machine BEGIN
    DELETE FROM unsummarised WHERE session = new.session;
    UPDATE summarised SET sessions = sessions + 1, numbers = numbers + new.session;
END;
-- If the whole session is deleted, no summary is pending.
CREATE TRIGGER points_went AFTER DELETE ON session_machine BEGIN
    UPDATE summarised SET sessions = sessions - 1, numbers = numbers - old.session;
    INSERT INTO unsummarised SELECT number FROM session
    WHERE number = old.session AND state IN ('complete', 'imported');
END;
