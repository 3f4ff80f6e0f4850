// walk KIB STEPS: walks through KIB of memory in random order; each step depends on the previous one.
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
  for (size_t place = 0; place < places; place++) next[place] = place;
  // Sattolo's shuffle: a single cycle through all places.
  for (size_t place = places - 1; place > 0; place--) {
    size_t other = draw() % place, held = next[place];
    next[place] = next[other];
    next[other] = held;
  }
  size_t place = 0;
  for (uint64_t step = strtoull(words[2], NULL, 10); step > 0; step--) place = next[place];
  printf("%zu\n", place);
}
