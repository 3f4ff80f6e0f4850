//! Caches long series: packs their first points into one blob, and keeps the state of the search
//! for changes.
//!
//! Reading hundreds of points row by row takes longer than searching them for changes. Packs and
//! detector states are derived from points: triggers delete a pack whose points change, and a
//! detector state records which points it has seen. Start at [`Store::load_points`].

use super::Store;
use super::database::{Database, SqlRow, sql, sql_params};
use super::points::{StoredPoint, read_point};
use speedwell_model::{HistoryPoint, PointKind};

/// Shorter series are not cached: reading and searching them from the beginning is just as fast as
/// using a cache.
const MIN_CACHED_POINTS: usize = 128;
/// A pack is rebuilt once at least one sixteenth of the points is outside it.
const LOOSE_SHARE_DIVISOR: usize = 16;

/// Marks a missing number: a quiet NaN with a payload that no arithmetic produces.
const NO_NUMBER: u64 = 0x7ff8_0000_5350_574c;
/// Marks a missing revision.
const NO_REVISION: i64 = i64::MIN;
/// Number of little-endian 8-byte words per point.
const WORDS_PER_POINT: usize = 9;

/// Results of a search for changes. They are cached, so that the next search can continue where
/// this search ended.
#[derive(Debug, Default)]
pub struct SearchCache {
    packs: Vec<PointPack>,
    detector_states: Vec<(i64, Vec<Vec<u8>>)>,
}

/// The packed points of a series, from its first session up to `session`.
#[derive(Debug)]
struct PointPack {
    series: i64,
    at_unix_ms: i64,
    session: i64,
    points: usize,
    packed: Vec<u8>,
}

impl SearchCache {
    /// Adds the detector states of a series that has `points` points. There is one state for each
    /// [digest of the benchmark](HistoryPoint::benchmark_digest). Short series are ignored.
    pub fn add_detector_states(&mut self, series: i64, points: usize, states: Vec<Vec<u8>>) {
        if points >= MIN_CACHED_POINTS {
            self.detector_states.push((series, states));
        }
    }

    /// Packs the points of a series, if that is worthwhile. `series` must contain all points, that
    /// is, come from [`Store::load_newest_points`] with `usize::MAX` as limit.
    pub fn pack_points(&mut self, series: &SeriesPoints) {
        let points = &series.points;
        if points.len() < MIN_CACHED_POINTS || LOOSE_SHARE_DIVISOR * series.loose < points.len() {
            return;
        }
        if let (Some(last), Some(packed)) = (points.last(), encode_points(points)) {
            self.packs.push(PointPack {
                series: last.series,
                at_unix_ms: last.at_unix_ms,
                session: last.session,
                points: points.len(),
                packed,
            });
        }
    }
}

/// The points of a series, ordered by the start of their sessions.
#[derive(Debug, Default)]
pub struct SeriesPoints {
    /// The points.
    pub points: Vec<StoredPoint>,
    /// Number of points outside the pack.
    loose: usize,
}

impl Store {
    /// Returns the points of a series, ordered by the start of their sessions.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_points(&self, series: i64) -> anyhow::Result<Vec<StoredPoint>> {
        Ok(self.load_newest_points(series, usize::MAX)?.points)
    }

    /// Returns up to `max_points` points of a series, from the latest sessions.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_newest_points(
        &self,
        series: i64,
        max_points: usize,
    ) -> anyhow::Result<SeriesPoints> {
        let sql = sql!("SELECT packed_points FROM series_cache WHERE series = $1");
        let read = |row: SqlRow<'_>| {
            Ok(row.bytes_or_null(0)?.and_then(|pack| decode_points(series, pack)))
        };
        let packed: Option<Option<Vec<StoredPoint>>> =
            self.query_first(sql, sql_params![series], read)?;
        let mut points = packed.flatten().unwrap_or_default();
        let after = points.last().map(|last| (last.at_unix_ms, last.session));
        let (at_unix_ms, session) = after.unwrap_or((i64::MIN, i64::MIN));
        let sql = sql!(
            "SELECT at_unix_ms, session, revision, machine, value, low, high, runs, spread, kind,
                    dirty, benchmark_digest
             FROM point WHERE series = $1 AND (at_unix_ms, session) > ($2, $3)
             ORDER BY at_unix_ms DESC, session DESC, seq DESC LIMIT $4"
        );
        let limit = i64::try_from(max_points).unwrap_or(i64::MAX);
        let mut loose: Vec<StoredPoint> =
            self.query_rows(sql, sql_params![series, at_unix_ms, session, limit], |row| {
                read_point(series, &row)
            })?;
        loose.reverse();
        let count = loose.len();
        points.append(&mut loose);
        points.drain(..points.len().saturating_sub(max_points));
        Ok(SeriesPoints { points, loose: count })
    }

    /// Returns the detector states of a series along a branch, one for each digest of the
    /// benchmark.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn load_detector_states(&self, series: i64, branch: &str) -> anyhow::Result<Vec<Vec<u8>>> {
        let sql =
            sql!("SELECT state FROM detector_state WHERE series = $1 AND branch = $2 ORDER BY seq");
        self.query_rows(sql, sql_params![series, branch], |row| row.get(0))
    }

    /// Stores the results of a search along a branch in one transaction.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_search_cache(
        &mut self,
        branch: &str,
        searched: &SearchCache,
    ) -> anyhow::Result<()> {
        let SearchCache { packs, detector_states } = searched;
        if packs.is_empty() && detector_states.is_empty() {
            return Ok(());
        }
        self.transact(|file| {
            for pack in packs {
                store_pack(file, pack)?;
            }
            for (series, states) in detector_states {
                file.execute(
                    sql!("DELETE FROM detector_state WHERE series = $1 AND branch = $2"),
                    sql_params![*series, branch],
                )?;
                for (index, state) in (0_u32..).zip(states) {
                    file.execute(
                        sql!(
                            "INSERT INTO detector_state (series, branch, seq, state)
                             VALUES ($1, $2, $3, $4)"
                        ),
                        sql_params![*series, branch, index, state],
                    )?;
                }
            }
            Ok(())
        })
    }
}

/// Stores a pack, unless the number of points that it covers has changed since it was built.
fn store_pack(file: &Database, pack: &PointPack) -> anyhow::Result<()> {
    let PointPack { series, at_unix_ms, session, points, packed } = pack;
    let count: i64 = file.query_value(
        sql!(
            "SELECT count(*) FROM point
             WHERE series = $1 AND (at_unix_ms, session) <= ($2, $3)"
        ),
        sql_params![*series, *at_unix_ms, *session],
    )?;
    if usize::try_from(count) == Ok(*points) {
        file.execute(
            sql!(
                "INSERT INTO series_cache (series, at_unix_ms, session, packed_points)
                 VALUES ($1, $2, $3, $4) ON CONFLICT (series) DO UPDATE SET
                     at_unix_ms = excluded.at_unix_ms, session = excluded.session,
                     packed_points = excluded.packed_points"
            ),
            sql_params![*series, *at_unix_ms, *session, packed],
        )?;
    }
    Ok(())
}

/// Packs points. The result contains the distinct digests of the benchmark, each preceded by its
/// length, then a length of 0, and then [`WORDS_PER_POINT`] words per point. `None` if there are
/// too many digests, or a digest is empty.
fn encode_points(points: &[StoredPoint]) -> Option<Vec<u8>> {
    let mut works: Vec<&str> = Vec::new();
    let mut words = Vec::with_capacity(points.len() * WORDS_PER_POINT);
    for stored in points {
        let point = &stored.point;
        let work = match point.benchmark_digest.as_deref() {
            Some(work) => match works.iter().position(|name| *name == work) {
                Some(index) => index + 1,
                None => {
                    works.push(work);
                    works.len()
                }
            },
            None => 0,
        };
        let kind = PointKind::ALL.iter().position(|kind| *kind == point.kind)?;
        let number = |value: Option<f64>| value.map_or(NO_NUMBER, f64::to_bits);
        words.extend([
            stored.at_unix_ms as u64,
            stored.session as u64,
            stored.revision.unwrap_or(NO_REVISION) as u64,
            stored.machine as u64,
            point.value.to_bits(),
            number(point.interval.map(|bounds| bounds.0)),
            number(point.interval.map(|bounds| bounds.1)),
            number(point.spread),
            u64::from(point.runs)
                | (kind as u64) << 32
                | u64::from(point.is_dirty) << 40
                | u64::from(u16::try_from(work).ok()?) << 48,
        ]);
    }
    let mut packed = Vec::new();
    for work in works {
        // A length of 0 terminates the list.
        let length = u32::try_from(work.len()).ok().filter(|length| *length > 0)?;
        packed.extend(length.to_le_bytes());
        packed.extend(work.as_bytes());
    }
    packed.extend(0_u32.to_le_bytes());
    packed.extend(words.into_iter().flat_map(u64::to_le_bytes));
    Some(packed)
}

/// Unpacks points; `None` if the bytes are not a pack.
fn decode_points(series: i64, mut packed: &[u8]) -> Option<Vec<StoredPoint>> {
    let mut works: Vec<&str> = Vec::new();
    loop {
        let (length, rest) = packed.split_first_chunk()?;
        let (work, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        packed = rest;
        if work.is_empty() {
            break;
        }
        works.push(std::str::from_utf8(work).ok()?);
    }
    let (words, []) = packed.as_chunks() else {
        return None;
    };
    let (points, []) = words.as_chunks::<WORDS_PER_POINT>() else {
        return None;
    };
    let unpacked = points.iter().map(|words| {
        let [at_unix_ms, session, revision, machine, value, low, high, spread, bit_fields] =
            words.map(u64::from_le_bytes);
        let number = |bits: u64| (bits != NO_NUMBER).then(|| f64::from_bits(bits));
        let kind = *PointKind::ALL.get((bit_fields >> 32 & 0xff) as usize)?;
        let work = match (bit_fields >> 48) as usize {
            0 => None,
            work_number => Some((*works.get(work_number - 1)?).to_owned()),
        };
        Some(StoredPoint {
            series,
            at_unix_ms: at_unix_ms as i64,
            session: session as i64,
            revision: Some(revision as i64).filter(|number| *number != NO_REVISION),
            machine: machine as i64,
            point: HistoryPoint {
                value: f64::from_bits(value),
                interval: number(low).zip(number(high)),
                runs: bit_fields as u32,
                spread: number(spread),
                kind,
                is_dirty: bit_fields >> 40 & 1 == 1,
                benchmark_digest: work,
            },
        })
    });
    unpacked.collect()
}

#[cfg(test)]
mod tests {
    use super::super::back_end_tests::test_backends;
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{
        Machine, Metric, MetricDirection, Revision, SeriesKey, SessionPoint, SessionPoints,
        SessionState,
    };

    /// Stores a session that started at `at_unix_ms`, with a point of each kind in series 1.
    fn store_session(store: &mut Store, at_unix_ms: i64) -> i64 {
        let mut session = FakeSession::with_fixed_blocks(&["default"], 1).build();
        session.runs.clear();
        session.id = format!("session of {at_unix_ms}");
        session.state = SessionState::Imported;
        session.started_unix_ms = at_unix_ms;
        let number = store.insert_session(&session).unwrap();
        let point = |place: usize| SessionPoint {
            series: SeriesKey {
                case: "bench n=1".into(),
                variant: "default".into(),
                metric: Metric::new("time", "s", MetricDirection::Lower),
            },
            metric_index: 0,
            revision: (place > 0)
                .then(|| Revision { id: format!("r{at_unix_ms}"), ..Revision::default() }),
            point: HistoryPoint {
                value: at_unix_ms as f64 + 0.1,
                interval: (place > 1).then_some((0.5, f64::INFINITY)),
                runs: 3 + place as u32,
                spread: (place > 2).then_some(0.02),
                kind: PointKind::ALL[place],
                is_dirty: place == 3,
                benchmark_digest: (place > 0).then(|| format!("work {}", place % 2)),
            },
        };
        let points = SessionPoints {
            machine: Machine { id: "lab".into(), name: None, label: None, class: None },
            environment_facts: Vec::new(),
            points: (0..PointKind::ALL.len()).map(point).collect(),
        };
        store.store_points(number, &points).unwrap();
        number
    }

    #[test]
    fn a_session_dated_in_the_future_is_not_the_newest_for_ever() {
        const YEAR_2100: i64 = 4_102_444_800_000;
        for backend in test_backends() {
            let mut store = backend.open();
            let session = store_session(&mut store, YEAR_2100);
            pack_all_points(&mut store);
            let next = store_session(&mut store, speedwell_machine::process::unix_time_ms());
            let mut sessions: Vec<i64> =
                store.load_points(1).unwrap().iter().map(|point| point.session).collect();
            sessions.dedup();
            assert_eq!(
                sessions,
                [session, next],
                "the later session is read, and its point comes last"
            );
            assert_eq!(store.sessions_in_future(9).unwrap(), [session]);
            assert_eq!(store.load_session(session).unwrap().started_unix_ms, YEAR_2100);
        }
    }

    #[test]
    fn start_times_more_than_a_day_ahead_count_as_now() {
        let now = 1_800_000_000_000;
        let hours = |hours: i64| now + hours * 3_600_000;
        for (started, counts_as) in [(-500, -500), (0, 0), (23, 23), (25, 0), (600_000, 0)] {
            let begun = super::super::credible_start(hours(started), now);
            assert_eq!(begun, hours(counts_as), "{started} h");
        }
    }

    fn pack_all_points(store: &mut Store) {
        let mut searched = SearchCache::default();
        searched.pack_points(&store.load_newest_points(1, usize::MAX).unwrap());
        store.store_search_cache("main", &searched).unwrap();
    }

    #[test]
    fn packed_points_are_those_that_were_stored() {
        for backend in test_backends() {
            let mut store = backend.open();
            for at in (10..400).step_by(10) {
                store_session(&mut store, at);
            }
            let rows = store.load_newest_points(1, usize::MAX).unwrap();
            assert_eq!((rows.points.len(), rows.loose), (195, 195));
            pack_all_points(&mut store);
            let packed = store.load_newest_points(1, usize::MAX).unwrap();
            assert_eq!((&packed.points, packed.loose), (&rows.points, 0));
            let newest = store.load_newest_points(1, 7).unwrap().points;
            assert_eq!(newest, rows.points[188..]);

            store_session(&mut store, 400);
            let grown = store.load_newest_points(1, usize::MAX).unwrap();
            assert_eq!((grown.points.len(), grown.loose), (200, 5));
            assert_eq!(grown.points[..195], rows.points);
        }
    }

    #[test]
    fn a_pack_is_discarded_when_one_of_its_points_changes() {
        for backend in test_backends() {
            let mut store = backend.open();
            let sessions: Vec<i64> =
                (10..400).step_by(10).map(|at| store_session(&mut store, at)).collect();
            pack_all_points(&mut store);
            store.delete_untracked(sessions[3]).unwrap();
            let left = store.load_newest_points(1, usize::MAX).unwrap();
            assert_eq!((left.points.len(), left.loose), (190, 190));

            pack_all_points(&mut store);
            assert_eq!(store.load_newest_points(1, usize::MAX).unwrap().loose, 0);
            store_session(&mut store, 15);
            let more = store.load_newest_points(1, usize::MAX).unwrap();
            assert_eq!((more.points.len(), more.loose), (195, 195));
            assert!(more.points.is_sorted_by_key(|point| point.at_unix_ms));
        }
    }

    #[test]
    fn points_that_changed_while_they_were_searched_are_not_packed() {
        for backend in test_backends() {
            let mut store = backend.open();
            for at in (10..400).step_by(10) {
                store_session(&mut store, at);
            }
            let mut searched = SearchCache::default();
            searched.pack_points(&store.load_newest_points(1, usize::MAX).unwrap());
            store_session(&mut store, 15);
            store.store_search_cache("main", &searched).unwrap();
            assert_eq!(store.load_newest_points(1, usize::MAX).unwrap().loose, 200);
        }
    }

    #[test]
    fn invalid_bytes_are_not_decoded_as_a_pack() {
        let packed = encode_points(&[]).unwrap();
        assert_eq!(decode_points(1, &packed).unwrap(), []);
        for torn in
            [&[][..], &[1, 0, 0, 0], &[0, 0, 0, 0, 1], &[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]]
        {
            assert_eq!(decode_points(1, torn), None);
        }
    }
}
