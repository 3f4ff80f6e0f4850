-- Tables and columns named in the terms of the field. The comments of earlier steps hold under the new names.

-- Position of a row among those of its session or series; of a sample and a load, that of the run.
ALTER TABLE tag RENAME COLUMN place TO seq;
ALTER TABLE metric RENAME COLUMN place TO seq;
ALTER TABLE run RENAME COLUMN place TO seq;
ALTER TABLE sample RENAME COLUMN place TO seq;
ALTER TABLE failure RENAME COLUMN place TO seq;
ALTER TABLE load RENAME COLUMN place TO seq;
ALTER TABLE profile RENAME COLUMN place TO seq;
ALTER TABLE series RENAME COLUMN place TO seq;
ALTER TABLE point RENAME COLUMN place TO seq;
ALTER TABLE fleet_machine RENAME COLUMN place TO seq;
ALTER TABLE parcel RENAME COLUMN place TO seq;
ALTER TABLE parcel RENAME TO shard;
ALTER TABLE block_origin RENAME COLUMN parcel TO shard;

ALTER TABLE metric RENAME COLUMN first TO first_report;
-- Two different things had one name: kernel counters of a run, and facts of the session's machine.
ALTER TABLE run RENAME COLUMN surroundings TO kernel_stats;
ALTER TABLE session_machine RENAME COLUMN surroundings TO environment_facts;
ALTER TABLE run RENAME COLUMN disturbed TO rejected_by;
ALTER TABLE run RENAME COLUMN set_aside TO superseded;
ALTER TABLE point RENAME COLUMN work TO benchmark_digest;

ALTER TABLE case_decided RENAME TO decided_case;
ALTER TABLE decided_case RENAME COLUMN id TO case_id;

ALTER TABLE recorder RENAME COLUMN machine TO machine_id;
ALTER TABLE recorder RENAME COLUMN boot TO boot_id;
ALTER TABLE recorder RENAME COLUMN numbering TO pid_namespace;
ALTER TABLE live_load RENAME COLUMN machine TO machine_id;
ALTER TABLE live_load RENAME COLUMN boot TO boot_id;
ALTER TABLE live_load RENAME COLUMN numbering TO pid_namespace;
ALTER TABLE live RENAME TO live_session;

ALTER TABLE line RENAME TO branch_revision;
DROP INDEX line_by_revision;
CREATE INDEX branch_revision_by_revision ON branch_revision (revision, project, branch);
ALTER TABLE line_mark RENAME TO measured_order;
ALTER TABLE measured_order RENAME COLUMN numbers TO number_sum;

ALTER TABLE change RENAME COLUMN judged TO triage;
ALTER TABLE change RENAME COLUMN judged_by TO triaged_by;
ALTER TABLE change RENAME COLUMN judged_unix_ms TO triaged_unix_ms;
ALTER TABLE renamed RENAME TO rename;
ALTER TABLE remark RENAME TO annotation;

ALTER TABLE project RENAME COLUMN keep TO retention;
ALTER TABLE audit RENAME COLUMN who TO actor;
ALTER TABLE audit RENAME COLUMN what TO action;
ALTER TABLE deleted RENAME TO deleted_session;
ALTER TABLE deleted_session RENAME COLUMN who TO actor;
ALTER TABLE deleted_session RENAME COLUMN why TO reason;
UPDATE comment_job SET state = 'posted' WHERE state = 'said';

ALTER TABLE walk RENAME TO detector_state;
ALTER TABLE detector_state RENAME COLUMN place TO seq;
ALTER TABLE point_pack RENAME TO series_cache;
ALTER TABLE series_cache RENAME COLUMN packed TO packed_points;

ALTER TABLE unsummarised RENAME TO pending_summary;
ALTER TABLE summarised RENAME TO summary_total;
ALTER TABLE summary_total RENAME COLUMN one TO id;
ALTER TABLE summary_total RENAME COLUMN numbers TO number_sum;
