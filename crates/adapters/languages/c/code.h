/* Interface between a piece of C or C++ code and the program around it. The code is compiled
 * separately, with its loop; everything else (main.c) is compiled once per compiler and set of flags. */

#ifndef SPEEDWELL_CODE_H
#define SPEEDWELL_CODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a step of the code failed. speedwell_fail fills it in on the thread that failed. */
struct speedwell_failure {
  int line; /* of the text, 0 if unknown */
  char type[200];
  char message[4000];
};

/* The code. Functions that return int return 0, or 1 after speedwell_fail. */
struct speedwell_code {
  const char *language;
  const char *compiler;
  int optimised;
  int (*init)(void);
  int (*done)(void);
  /* Create and free a worker's state, both on the worker's thread. */
  int (*begin)(void **state);
  void (*end)(void *state);
  /* Executes this many iterations of the runner, or of an empty runner. */
  int (*batch)(void *state, uint64_t iterations);
  void (*empty)(uint64_t iterations);
};

extern const struct speedwell_code speedwell_code;

/* Records why the current step fails, and the line of the text that failed, or 0. */
void speedwell_fail(const char *type, const char *message, int line);

#ifdef __cplusplus
}
#endif

#endif
