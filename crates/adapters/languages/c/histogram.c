/* Time per iteration of each batch, in picoseconds, to within half a percent: 128 steps per power
 * of two, as in HdrHistogram. */

enum { STEPS = 128, STEP_BITS = 7, BUCKETS = (64 - STEP_BITS) * STEPS + STEPS };

struct histogram {
  uint32_t counts[BUCKETS];
  int64_t total;
  uint64_t least;
};

static void histogram_clear(struct histogram *times) {
  memset(times->counts, 0, sizeof times->counts);
  times->total = 0;
  times->least = UINT64_MAX;
}

static void histogram_add(struct histogram *times, uint64_t ps) {
  int shift = 0;
  if (ps >= STEPS) shift = 63 - __builtin_clzll((unsigned long long)ps) - STEP_BITS;
  ++times->counts[(size_t)shift * STEPS + (size_t)(ps >> shift)];
  ++times->total;
  if (ps < times->least) times->least = ps;
}

static void histogram_join(struct histogram *all, const struct histogram *one) {
  for (int i = 0; i < BUCKETS; ++i) all->counts[i] += one->counts[i];
  all->total += one->total;
  if (one->least < all->least) all->least = one->least;
}

/* The middle of the bucket below which this percentage of all times lies. */
static uint64_t histogram_quantile(const struct histogram *times, int hundredths) {
  const int64_t wanted = (times->total * hundredths + 99) / 100;
  int64_t seen = 0;
  for (int i = 0; i < BUCKETS; ++i) {
    seen += times->counts[i];
    if (seen < wanted || !seen) continue;
    /* From the second power of two on, a bucket's index implies the leading bit of its times. */
    const int shift = i < 2 * STEPS ? 0 : i / STEPS - 1;
    const uint64_t low = (uint64_t)(i - shift * STEPS) << shift;
    return low + (((uint64_t)1 << shift) >> 1);
  }
  return 0;
}

static void put_histogram(struct text *event, const struct histogram *times) {
  static const int shown[3] = {5, 25, 50};
  put_number(event, "batches", times->total);
  text_say(event, "\tq_ps=");
  if (!times->total) return;
  text_number(event, (int64_t)times->least);
  for (int i = 0; i < 3; ++i) {
    text_say(event, ",");
    text_number(event, (int64_t)histogram_quantile(times, shown[i]));
  }
}
