/* Controls callgrind while it counts instructions (`--metric instructions`): valgrind client requests,
 * which are no-ops outside valgrind. The first one detects valgrind; the others are used only under it. */

enum { ON_VALGRIND = 0x1001, DUMP_COUNTS = 0x43540000, TOGGLE_COUNTING = 0x43540002 };

static uint64_t valgrind_request(uint64_t request) {
  volatile uint64_t words[6] = {request, 0, 0, 0, 0, 0};
  uint64_t answer = 0;
#if defined(__x86_64__)
  __asm__ volatile(
      "rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(words)
      : "cc", "memory");
#elif defined(__aarch64__)
  __asm__ volatile(
      "mov x3, %1\n\tmov x4, %2\n\tror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
      "orr x10, x10, x10\n\tmov %0, x3"
      : "=r"(answer)
      : "r"(answer), "r"(words)
      : "cc", "memory", "x3", "x4");
#endif
  return answer;
}

static int is_counted(void) {
  static int under_valgrind = -1;
  if (under_valgrind < 0) under_valgrind = valgrind_request(ON_VALGRIND) != 0;
  return under_valgrind;
}

/* Not inlined, so that the code between two calls is always the same. */
static __attribute__((noinline)) void toggle_counting(void) { valgrind_request(TOGGLE_COUNTING); }

/* Two sections are counted: an empty one, and the one up to `end_counting`. */
static void begin_counting(void) {
  toggle_counting();
  toggle_counting();
  valgrind_request(DUMP_COUNTS);
  toggle_counting();
}

static void end_counting(void) {
  toggle_counting();
  valgrind_request(DUMP_COUNTS);
}
