/* What a piece of C or C++ code and the program around it know of each other. The code is compiled by
 * itself, with its loop; everything else (main.c) is compiled once for each compiler and set of flags. */

#ifndef SPEEDWELL_CODE_H
#define SPEEDWELL_CODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a step of the code failed. Written by speedwell_fail in the thread that failed. */
struct speedwell_failure {
  int line; /* of the text, 0 if unknown */
  char type[200];
  char message[4000];
};

/* The code. A function that returns int returns 0, or 1 after speedwell_fail. */
struct speedwell_code {
  const char *language;
  const char *compiler;
  int optimised;
  int (*init)(void);
  int (*done)(void);
  /* Makes the state of a worker, in the worker; and gives it back there. */
  int (*begin)(void **state);
  void (*end)(void *state);
  /* So many iterations: of the runner, and of a runner that does nothing. */
  int (*batch)(void *state, uint64_t iterations);
  void (*empty)(uint64_t iterations);
};

extern const struct speedwell_code speedwell_code;

/* Notes why the step under way fails, and the line of the text that says so, or 0. */
void speedwell_fail(const char *type, const char *message, int line);

#ifdef __cplusplus
}
#endif

#endif
