
-- Triggers named after the table and the event.
DROP TRIGGER variants_came;
CREATE TRIGGER session_variants_inserted AFTER INSERT ON session BEGIN
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;
DROP TRIGGER variants_changed;
CREATE TRIGGER session_variants_updated AFTER UPDATE OF variants ON session BEGIN
    DELETE FROM variant_session WHERE session = new.number;
    INSERT INTO variant_session
    SELECT DISTINCT json_extract(value, '$.name'), new.number FROM json_each(new.variants)
    WHERE json_extract(value, '$.name') IS NOT NULL;
END;

DROP TRIGGER session_came;
CREATE TRIGGER session_state_inserted AFTER INSERT ON session
WHEN new.state IN ('complete', 'imported') BEGIN
    INSERT INTO pending_summary VALUES (new.number);
END;
DROP TRIGGER session_ended;
CREATE TRIGGER session_state_updated AFTER UPDATE OF state ON session BEGIN
    DELETE FROM pending_summary WHERE session = new.number;
    INSERT INTO pending_summary SELECT new.number WHERE new.state IN ('complete', 'imported')
    AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session = new.number);
END;
DROP TRIGGER points_came;
CREATE TRIGGER session_machine_inserted AFTER INSERT ON session_machine BEGIN
    DELETE FROM pending_summary WHERE session = new.session;
    UPDATE summary_total SET sessions = sessions + 1, number_sum = number_sum + new.session;
END;
-- If the whole session is deleted, no summary is pending.
DROP TRIGGER points_went;
CREATE TRIGGER session_machine_deleted AFTER DELETE ON session_machine BEGIN
    UPDATE summary_total SET sessions = sessions - 1, number_sum = number_sum - old.session;
    INSERT INTO pending_summary SELECT number FROM session
    WHERE number = old.session AND state IN ('complete', 'imported');
END;

-- Every writer keeps a cache consistent with the points.
DROP TRIGGER point_came;
CREATE TRIGGER point_inserted AFTER INSERT ON point BEGIN
    DELETE FROM series_cache WHERE series = new.series
    AND (at_unix_ms, session) >= (new.at_unix_ms, new.session);
END;
DROP TRIGGER point_changed;
CREATE TRIGGER point_updated AFTER UPDATE ON point BEGIN
    DELETE FROM series_cache WHERE series IN (old.series, new.series);
END;
DROP TRIGGER point_went;
CREATE TRIGGER point_deleted AFTER DELETE ON point BEGIN
    DELETE FROM series_cache WHERE series = old.series
    AND (at_unix_ms, session) >= (old.at_unix_ms, old.session);
END;
