// walk KIB STEPS: one walk through KIB of memory in random order, where every step waits for the one before.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  size_t places = strtoull(words[1], NULL, 10) * 1024 / sizeof(size_t);
  size_t *next = malloc(places * sizeof *next);
  if (!next || places < 2) return 2;
  for (size_t at = 0; at < places; at++) next[at] = at;
  // Sattolo's shuffle: a single cycle through all places.
  for (size_t at = places - 1; at > 0; at--) {
    size_t other = draw() % at, held = next[at];
    next[at] = next[other];
    next[other] = held;
  }
  size_t at = 0;
  for (uint64_t step = strtoull(words[2], NULL, 10); step > 0; step--) at = next[at];
  printf("%zu\n", at);
}
