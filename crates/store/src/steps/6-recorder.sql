CREATE TABLE recorder (
    session INTEGER PRIMARY KEY REFERENCES session ON DELETE CASCADE,
    machine TEXT,                              -- machine-id
    boot TEXT,                                 -- the kernel's boot_id
    numbering TEXT,                            -- the namespace of process ids
    pid INTEGER NOT NULL,
    started_ticks INTEGER                      -- since boot
) STRICT;
