/* What a piece of C code finds around it: the usual headers, and how its values are kept. */

#ifndef SPEEDWELL_PRELUDE_H
#define SPEEDWELL_PRELUDE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "code.h"

/* Where a value is given to the assembler, which emits nothing for it. gcc takes a constant as it is;
 * clang, given the choice, would take memory, which costs a store. Numbers with a fraction have registers
 * of their own. */
#if defined(__clang__)
#define SPEEDWELL_WHOLE "r"
#else
#define SPEEDWELL_WHOLE "g"
#endif
#if defined(__x86_64__)
#define SPEEDWELL_FRACTION "x"
#elif defined(__aarch64__)
#define SPEEDWELL_FRACTION "w"
#else
#define SPEEDWELL_FRACTION "m"
#endif

/* The kinds of types, as GCC numbers them (typeclass.h): whole numbers and the like, pointers, fractions. */
#define SPEEDWELL_IS_WHOLE(value) (__builtin_classify_type(value) >= 1 && __builtin_classify_type(value) <= 4)
#define SPEEDWELL_IS_POINTER(value) (__builtin_classify_type(value) == 5)
#define SPEEDWELL_IS_FLOAT(value) __builtin_types_compatible_p(__typeof__(value), float)
#define SPEEDWELL_IS_DOUBLE(value) __builtin_types_compatible_p(__typeof__(value), double)
#define SPEEDWELL_IF(is, value, otherwise) __builtin_choose_expr(is, value, otherwise)

#define SPEEDWELL_INLINE static inline __attribute__((always_inline, unused))
SPEEDWELL_INLINE void speedwell_keep_whole(long long value) { __asm__ volatile("" : : SPEEDWELL_WHOLE(value)); }
SPEEDWELL_INLINE void speedwell_keep_pointer(const volatile void *value) {
  __asm__ volatile("" : : SPEEDWELL_WHOLE(value));
}
SPEEDWELL_INLINE void speedwell_keep_float(float value) { __asm__ volatile("" : : SPEEDWELL_FRACTION(value)); }
SPEEDWELL_INLINE void speedwell_keep_double(double value) { __asm__ volatile("" : : SPEEDWELL_FRACTION(value)); }
SPEEDWELL_INLINE void speedwell_keep_memory(const volatile void *value) {
  __asm__ volatile("" : : "r"(value) : "memory");
}

/* The value is computed, whatever becomes of it. */
#define SPEEDWELL_KEEP(value) \
  __builtin_choose_expr( \
      SPEEDWELL_IS_WHOLE(value), speedwell_keep_whole(SPEEDWELL_IF(SPEEDWELL_IS_WHOLE(value), value, 0)), \
      __builtin_choose_expr( \
          SPEEDWELL_IS_POINTER(value), \
          speedwell_keep_pointer((const void *)SPEEDWELL_IF(SPEEDWELL_IS_POINTER(value), value, 0)), \
          __builtin_choose_expr( \
              SPEEDWELL_IS_FLOAT(value), \
              speedwell_keep_float(SPEEDWELL_IF(SPEEDWELL_IS_FLOAT(value), value, 0)), \
              __builtin_choose_expr( \
                  SPEEDWELL_IS_DOUBLE(value), \
                  speedwell_keep_double(SPEEDWELL_IF(SPEEDWELL_IS_DOUBLE(value), value, 0)), \
                  speedwell_keep_memory(&value)))))

SPEEDWELL_INLINE long long speedwell_changed_whole(long long value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}
SPEEDWELL_INLINE void *speedwell_changed_pointer(const volatile void *value) {
  __asm__ volatile("" : "+r"(value));
  return (void *)value;
}
SPEEDWELL_INLINE float speedwell_changed_float(float value) {
  __asm__ volatile("" : "+" SPEEDWELL_FRACTION(value));
  return value;
}
SPEEDWELL_INLINE double speedwell_changed_double(double value) {
  __asm__ volatile("" : "+" SPEEDWELL_FRACTION(value));
  return value;
}

/* The value as if it might have changed, so that what is computed from it is computed anew. */
#define SPEEDWELL_CHANGED(value) \
  __builtin_choose_expr( \
      SPEEDWELL_IS_WHOLE(value), \
      (__typeof__(SPEEDWELL_IF(SPEEDWELL_IS_WHOLE(value), value, 0)))speedwell_changed_whole(SPEEDWELL_IF(SPEEDWELL_IS_WHOLE(value), value, 0)), \
      __builtin_choose_expr( \
          SPEEDWELL_IS_POINTER(value), \
          (__typeof__(SPEEDWELL_IF(SPEEDWELL_IS_POINTER(value), value, (void *)0)))speedwell_changed_pointer( \
              SPEEDWELL_IF(SPEEDWELL_IS_POINTER(value), value, 0)), \
          __builtin_choose_expr( \
              SPEEDWELL_IS_FLOAT(value), \
              speedwell_changed_float(SPEEDWELL_IF(SPEEDWELL_IS_FLOAT(value), value, 0)), \
              __builtin_choose_expr( \
                  SPEEDWELL_IS_DOUBLE(value), \
                  speedwell_changed_double(SPEEDWELL_IF(SPEEDWELL_IS_DOUBLE(value), value, 0)), \
                  (speedwell_keep_memory(&value), value)))))

/* Pending stores happen, and what lies in memory is read anew. */
#define SPEEDWELL_CLOBBER() __asm__ volatile("" : : : "memory")

/* How the code says that it cannot go on: `fail("found %d", n)`. Everything of the step under way is left. */
#define fail(...) speedwell_leave(__LINE__, __VA_ARGS__)
static __thread jmp_buf speedwell_way_out;
__attribute__((noreturn, noinline, cold, unused, format(printf, 2, 3)))
static void speedwell_leave(int line, const char *format, ...) {
  char message[2000];
  va_list words;
  va_start(words, format);
  vsnprintf(message, sizeof message, format, words);
  va_end(words);
  speedwell_fail("fail", message, line);
  longjmp(speedwell_way_out, 1);
}

/* What the function that holds the code gives back: a type of its own, so that the compiler refuses a
 * `return` of the code that would leave the loop. */
struct speedwell_finished {
  int nothing;
};

#if defined(__clang__)
#define SPEEDWELL_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define SPEEDWELL_COMPILER "gcc " __VERSION__
#else
#define SPEEDWELL_COMPILER "unknown"
#endif
#if defined(__OPTIMIZE__)
#define SPEEDWELL_OPTIMISED 1
#else
#define SPEEDWELL_OPTIMISED 0
#endif

enum speedwell_task { SPEEDWELL_INIT, SPEEDWELL_BEGIN, SPEEDWELL_BATCH, SPEEDWELL_DONE };

#endif
