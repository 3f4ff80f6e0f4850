CREATE INDEX run_by_case ON run (session, benchmark_case, place) WHERE set_aside IS NULL;
