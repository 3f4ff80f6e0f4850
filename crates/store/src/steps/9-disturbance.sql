ALTER TABLE run ADD COLUMN voluntary_switches INTEGER;
ALTER TABLE run ADD COLUMN minor_faults INTEGER;
ALTER TABLE run ADD COLUMN major_faults INTEGER;
ALTER TABLE run ADD COLUMN migrations INTEGER;       -- of the first thread
ALTER TABLE run ADD COLUMN surroundings TEXT;        -- JSON: steal and pressure (shares), frequency_mhz, throttled, load, temperature_c
ALTER TABLE run ADD COLUMN disturbed TEXT;           -- the rule that excluded the run
