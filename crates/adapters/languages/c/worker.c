/* Workers: threads that keep their state between runs, and their part of a run. */

enum mode { CONTINUOUS, TIMED };

/* A shorter batch is doubled, because the clock would dominate; a longer one is halved, because it would
 * overshoot the end of its window. */
enum { SHORT_BATCH_NS = 50000, LONG_BATCH_NS = 2000000 };

struct point {
  int64_t t_ns, count;
};

/* Shared by all workers of a run. Plain fields are written before the run begins, or by the first worker
 * while the others wait at the gate; all others are accessed atomically. */
struct run {
  enum mode mode;
  int64_t interval_ns, warmup_ns, samples, loop, epoch_ns;
  int stream, workers;
  int stop, failed;
  int complete, finished;
  int arrived, round;
  int over;
  int64_t *sample_ns, *sample_cpu_ns;
  int64_t sampled;
  /* Samples between runs of the reference loop; 0: never. */
  int64_t reference, reference_turns, referred;
  int64_t *reference_ns;
};

enum condition { STARTING, WAITING, BROKEN };

struct worker {
  pthread_t thread;
  struct run *run; /* the current run, or NULL */
  int condition;
  int leave;
  unsigned seen;
  void *state;
  uint64_t batch;
  int64_t total;
  struct histogram times;
  struct point *points;
  int64_t taken, late_ns, begin_ns, end_ns;
  int64_t begin_cpu_ns, cpu_ns; /* from the first point to the last, or of a sample */
  struct speedwell_failure failure;
};

/* Writing to `bell` wakes the control thread; with the rest, workers wait for runs, which `generation` counts. */
static int bell[2];
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static unsigned generation;
static struct run *current;

/* The workers of the job. Changed by the control thread only, between runs. */
static struct worker **team;
static int team_size;

static __thread struct speedwell_failure failure;

void speedwell_fail(const char *type, const char *message, int line) {
  failure.line = line;
  snprintf(failure.type, sizeof failure.type, "%s", type);
  snprintf(failure.message, sizeof failure.message, "%s", message);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The processor time of this thread. Reading it is a system call of about 1 µs: it is read outside the
 * wall-clock measurement, or once per window. */
static int64_t cpu_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The reference loop: constant work, so that changes of its time are due to the machine. */
static int64_t reference_loop_ns(int64_t turns) {
  const int64_t begin_ns = cpu_now_ns();
  uint64_t state = 88172645463325252u;
  for (int64_t turn = 0; turn < turns; ++turn) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  __asm__ volatile("" : : "r"(&state) : "memory");
  return cpu_now_ns() - begin_ns;
}

/* Returns how many turns of the reference loop take about 200 µs. */
static int64_t reference_turns(void) {
  int64_t turns = 1000;
  while (reference_loop_ns(turns) < 200000) turns *= 2;
  return turns;
}

static int count_up(int *counter) { return __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL); }
static int seen(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }

static void ring(void) {
  const char byte = 0;
  /* If the pipe is full, the control thread is already notified. */
  if (write(bell[1], &byte, 1) < 0) return;
}

/* Barrier: releases all workers of a run at once, or none of them after a failure. */
static void gate(struct run *run) {
  const int round = seen(&run->round);
  if (count_up(&run->arrived) == run->workers) {
    set(&run->arrived, 0);
    count_up(&run->round);
    return;
  }
  while (seen(&run->round) == round && !seen(&run->failed)) sched_yield();
}

/* Executes one batch and records its time in the histogram. Returns the time at its end, or -1. */
static int64_t one_batch(struct worker *worker, uint64_t iterations, int64_t begin_ns, int counts) {
  const int instructions = is_counted();
  if (instructions) begin_counting();
  const int failed = speedwell_code.batch(worker->state, iterations);
  if (instructions) end_counting();
  if (failed) {
    worker->failure = failure;
    set(&worker->run->failed, 1);
    return -1;
  }
  const int64_t end_ns = now_ns(), took_ns = end_ns - begin_ns;
  __atomic_store_n(&worker->total, worker->total + (int64_t)iterations, __ATOMIC_RELAXED);
  if (counts) histogram_add(&worker->times, (uint64_t)((double)took_ns * 1000 / (double)iterations + .5));
  if (iterations == worker->batch) {
    if (took_ns < SHORT_BATCH_NS) worker->batch *= 2;
    else if (took_ns > LONG_BATCH_NS && worker->batch > 1) worker->batch /= 2;
  }
  return end_ns;
}

static void take_point(struct worker *worker, struct run *run, int64_t now, int64_t count, int64_t due_ns) {
  struct point *point = &worker->points[worker->taken];
  point->t_ns = now - run->epoch_ns;
  point->count = count;
  if (now - due_ns > worker->late_ns) worker->late_ns = now - due_ns;
  if (worker->taken == 0) worker->begin_cpu_ns = cpu_now_ns();
  else worker->cpu_ns = cpu_now_ns() - worker->begin_cpu_ns;
  __atomic_store_n(&worker->taken, worker->taken + 1, __ATOMIC_RELEASE);
  if (worker->taken == run->samples + 1) count_up(&run->complete);
  if (run->stream) ring();
}

static void run_continuous(struct worker *worker, struct run *run) {
  const int64_t first_ns = run->epoch_ns + run->warmup_ns, before = worker->total;
  int64_t due_ns = first_ns, now = now_ns();
  while (now < run->epoch_ns && run->workers > 1) {
    sched_yield();
    now = now_ns();
  }
  if (run->warmup_ns == 0) {
    take_point(worker, run, run->epoch_ns, 0, run->epoch_ns);
    due_ns += run->interval_ns;
  }
  while (!seen(&run->stop) && !seen(&run->failed) && seen(&run->complete) < run->workers) {
    const int counts = worker->taken > 0 && worker->taken <= run->samples;
    now = one_batch(worker, worker->batch, now, counts);
    if (now < 0) return;
    if (now < due_ns || worker->taken > run->samples) continue;
    take_point(worker, run, now, worker->total - before, due_ns);
    due_ns = first_ns + ((now - first_ns) / run->interval_ns + 1) * run->interval_ns;
  }
}

/* One worker's share of a sample: `loop` iterations, in batches of which the last may be shorter. */
static void take_share(struct worker *worker, struct run *run, int counts) {
  worker->begin_cpu_ns = cpu_now_ns();
  int64_t left = run->loop, now = now_ns();
  worker->begin_ns = now;
  while (left > 0 && !seen(&run->stop) && !seen(&run->failed)) {
    /* Instructions are counted for a sample as a whole: its division into batches depends on time. */
    const int divides = worker->batch < (uint64_t)left && !is_counted();
    const uint64_t batch = divides ? worker->batch : (uint64_t)left;
    /* A short final batch measures the clock more than the code. */
    const int is_full = batch == worker->batch || left == run->loop;
    now = one_batch(worker, batch, now, counts && is_full);
    if (now < 0) return;
    left -= (int64_t)batch;
  }
  worker->end_ns = now;
  worker->cpu_ns = cpu_now_ns() - worker->begin_cpu_ns;
}

/* Done by the first worker while the others wait: records the ended sample and decides whether it was the
 * last. */
static void end_sample(struct run *run, int counts) {
  int64_t begin_ns = INT64_MAX, end_ns = 0, cpu_ns = 0;
  for (int i = 0; i < team_size; ++i) {
    cpu_ns += team[i]->cpu_ns;
    if (team[i]->begin_ns < begin_ns) begin_ns = team[i]->begin_ns;
    if (team[i]->end_ns > end_ns) end_ns = team[i]->end_ns;
  }
  if (seen(&run->stop) || seen(&run->failed)) {
    set(&run->over, 1);
  } else if (counts) {
    run->sample_cpu_ns[run->sampled] = cpu_ns;
    run->sample_ns[run->sampled++] = end_ns - begin_ns;
    if (run->reference && run->sampled % run->reference == 0)
      run->reference_ns[run->referred++] = reference_loop_ns(run->reference_turns);
  }
  if (run->sampled == run->samples) set(&run->over, 1);
  if (end_ns - run->epoch_ns >= run->warmup_ns) run->warmup_ns = 0;
}

static void run_timed(struct worker *worker, struct run *run) {
  int counts = run->warmup_ns == 0;
  while (!seen(&run->over)) {
    gate(run);
    take_share(worker, run, counts);
    gate(run);
    if (worker == team[0]) end_sample(run, counts);
    gate(run);
    if (seen(&run->failed)) return;
    counts = run->warmup_ns == 0;
  }
}

static void *work(void *given) {
  struct worker *worker = (struct worker *)given;
  const int failed = speedwell_code.begin(&worker->state);
  worker->failure = failure;
  pthread_mutex_lock(&door);
  worker->seen = generation;
  set(&worker->condition, failed ? BROKEN : WAITING);
  ring();
  while (!failed) {
    while (worker->seen == generation && !worker->leave) pthread_cond_wait(&opened, &door);
    if (worker->leave) break;
    worker->seen = generation;
    struct run *run = current;
    worker->run = run;
    pthread_mutex_unlock(&door);
    if (run->mode == CONTINUOUS) run_continuous(worker, run);
    else run_timed(worker, run);
    pthread_mutex_lock(&door);
    worker->run = NULL;
    count_up(&run->finished);
    ring();
  }
  pthread_mutex_unlock(&door);
  if (!failed) speedwell_code.end(worker->state);
  return NULL;
}
