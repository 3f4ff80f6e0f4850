
-- Triggers named after the table and the event. Functions keep the names that they were created with, so those that use
-- a renamed table are replaced.
DROP TRIGGER variants_came ON session;
ALTER FUNCTION variants_came() RENAME TO session_variants_changed;
CREATE TRIGGER session_variants_changed AFTER INSERT OR UPDATE OF variants ON session
    FOR EACH ROW EXECUTE FUNCTION session_variants_changed();

DROP TRIGGER session_ended ON session;
DROP FUNCTION session_ended();
CREATE FUNCTION session_state_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pending_summary WHERE session = new.number;
    INSERT INTO pending_summary SELECT new.number WHERE new.state IN ('complete', 'imported')
    AND NOT EXISTS (SELECT 1 FROM session_machine WHERE session = new.number);
    RETURN NULL;
END $$;
CREATE TRIGGER session_state_changed AFTER INSERT OR UPDATE OF state ON session
    FOR EACH ROW EXECUTE FUNCTION session_state_changed();
DROP TRIGGER points_came ON session_machine;
DROP FUNCTION points_came();
CREATE FUNCTION session_machine_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pending_summary WHERE session = new.session;
    UPDATE summary_total SET sessions = sessions + 1, number_sum = number_sum + new.session;
    RETURN NULL;
END $$;
CREATE TRIGGER session_machine_inserted AFTER INSERT ON session_machine
    FOR EACH ROW EXECUTE FUNCTION session_machine_inserted();
-- If the whole session is deleted, no summary is pending.
DROP TRIGGER points_went ON session_machine;
DROP FUNCTION points_went();
CREATE FUNCTION session_machine_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE summary_total SET sessions = sessions - 1, number_sum = number_sum - old.session;
    INSERT INTO pending_summary SELECT number FROM session
    WHERE number = old.session AND state IN ('complete', 'imported');
    RETURN NULL;
END $$;
CREATE TRIGGER session_machine_deleted AFTER DELETE ON session_machine
    FOR EACH ROW EXECUTE FUNCTION session_machine_deleted();

-- Every writer keeps a cache consistent with the points.
DROP TRIGGER point_came ON point;
DROP FUNCTION point_came();
CREATE FUNCTION point_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM series_cache WHERE series = new.series
    AND (at_unix_ms, session) >= (new.at_unix_ms, new.session);
    RETURN NULL;
END $$;
CREATE TRIGGER point_inserted AFTER INSERT ON point
    FOR EACH ROW EXECUTE FUNCTION point_inserted();
DROP TRIGGER point_changed ON point;
DROP FUNCTION point_changed();
CREATE FUNCTION point_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM series_cache WHERE series IN (old.series, new.series);
    RETURN NULL;
END $$;
CREATE TRIGGER point_updated AFTER UPDATE ON point
    FOR EACH ROW EXECUTE FUNCTION point_updated();
DROP TRIGGER point_went ON point;
DROP FUNCTION point_went();
CREATE FUNCTION point_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM series_cache WHERE series = old.series
    AND (at_unix_ms, session) >= (old.at_unix_ms, old.session);
    RETURN NULL;
END $$;
CREATE TRIGGER point_deleted AFTER DELETE ON point
    FOR EACH ROW EXECUTE FUNCTION point_deleted();
