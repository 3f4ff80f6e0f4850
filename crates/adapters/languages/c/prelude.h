/* What a piece of C code can use: the usual headers, and macros that keep its values. */

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

/* Operand constraints for a value passed to an empty asm statement. gcc accepts a constant as it is;
 * clang, given the choice, would use memory, which costs a store. Floating-point numbers have registers of
 * their own. */
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

/* Kinds of types, as numbered by GCC (typeclass.h): integers and similar, pointers, floating-point
 * numbers. */
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

/* Forces the value to be computed, even if it is unused. */
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

/* Returns the value as if it might have changed, so that everything computed from it is computed again. */
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

/* Forces pending stores, and makes the compiler read memory again. */
#define SPEEDWELL_CLOBBER() __asm__ volatile("" : : : "memory")

/* How the code reports failure: `fail("found %d", n)`. Ends the whole current step. */
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

/* What the function that holds the code returns: a separate type, so that the compiler rejects a `return`
 * in the code that would leave the loop. */
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
