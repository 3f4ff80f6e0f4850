DROP TABLE walk;
CREATE TABLE walk (                            -- change detection state per work of a series along a line; may be deleted
    series INTEGER NOT NULL REFERENCES series,
    branch TEXT NOT NULL,
    place INTEGER NOT NULL,                    -- rank of the work, the last measured one last
    state BLOB NOT NULL,
    PRIMARY KEY (series, branch, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE point_pack (                      -- the first points of a series, packed; may be deleted
    series INTEGER PRIMARY KEY REFERENCES series,
    at_unix_ms INTEGER NOT NULL,               -- when the session of the last of them began
    session INTEGER NOT NULL,                  -- that session
    packed BLOB NOT NULL                       -- as in store/packs.rs
) STRICT;
-- Every writer keeps a pack consistent with the points.
CREATE TRIGGER point_came AFTER INSERT ON point BEGIN
    DELETE FROM point_pack WHERE series = new.series
    AND (at_unix_ms, session) >= (new.at_unix_ms, new.session);
END;
CREATE TRIGGER point_changed AFTER UPDATE ON point BEGIN
    DELETE FROM point_pack WHERE series IN (old.series, new.series);
END;
CREATE TRIGGER point_went AFTER DELETE ON point BEGIN
    DELETE FROM point_pack WHERE series = old.series
    AND (at_unix_ms, session) >= (old.at_unix_ms, old.session);
END;
