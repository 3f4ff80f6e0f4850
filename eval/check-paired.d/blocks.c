// blocks STEPS: gives a block of memory back and takes another one, of 256 that are held.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
  if (count != 2) return 2;
  void *held[256] = {0};
  uint64_t state = 0x2545f4914f6cdd1du, sum = 0;
  for (uint64_t step = strtoull(words[1], NULL, 10); step > 0; step--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    size_t at = state % 256, bytes = 16 + (state >> 20) % 3000;
    free(held[at]);
    held[at] = malloc(bytes);
    if (!held[at]) return 2;
    memset(held[at], (int)at, 16);
    sum += ((unsigned char *)held[at])[15];
  }
  printf("%llu\n", (unsigned long long)sum);
}
