DROP TABLE walk;
CREATE TABLE walk (                            -- change detection state per work of a series along a line; may be deleted
    series BIGINT NOT NULL REFERENCES series,
    branch TEXT NOT NULL,
    place BIGINT NOT NULL,                     -- rank of the work, the last measured one last
    state BYTEA NOT NULL,
    PRIMARY KEY (series, branch, place)
);

CREATE TABLE point_pack (                      -- the first points of a series, packed; may be deleted
    series BIGINT PRIMARY KEY REFERENCES series,
    at_unix_ms BIGINT NOT NULL,                -- when the session of the last of them began
    session BIGINT NOT NULL,                   -- that session
    packed BYTEA NOT NULL                      -- as in store/packs.rs
);
-- Every writer keeps a pack consistent with the points.
CREATE FUNCTION point_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM point_pack WHERE series = new.series
    AND (at_unix_ms, session) >= (new.at_unix_ms, new.session);
    RETURN NULL;
END $$;
CREATE TRIGGER point_came AFTER INSERT ON point
    FOR EACH ROW EXECUTE FUNCTION point_came();
CREATE FUNCTION point_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM point_pack WHERE series IN (old.series, new.series);
    RETURN NULL;
END $$;
CREATE TRIGGER point_changed AFTER UPDATE ON point
    FOR EACH ROW EXECUTE FUNCTION point_changed();
CREATE FUNCTION point_went() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM point_pack WHERE series = old.series
    AND (at_unix_ms, session) >= (old.at_unix_ms, old.session);
    RETURN NULL;
END $$;
CREATE TRIGGER point_went AFTER DELETE ON point
    FOR EACH ROW EXECUTE FUNCTION point_went();
