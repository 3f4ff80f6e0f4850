// Counts the words of a text in a hash table: many small functions, whose addresses vary with
// the layout.

#include <speedwell.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#define APART __attribute__((noinline))

namespace {

struct Word {
  std::uint32_t hash = 0, count = 0, length = 0;
  const char *text = nullptr;
};

APART bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
APART char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

APART std::uint32_t hash_of(const char *text, std::uint32_t length) {
  std::uint32_t hash = 2166136261u;
  for (std::uint32_t i = 0; i < length; ++i) hash = (hash ^ std::uint32_t(lower(text[i]))) * 16777619u;
  return hash;
}

APART bool is_same(const Word &word, const char *text, std::uint32_t length) {
  if (word.length != length) return false;
  for (std::uint32_t i = 0; i < length; ++i)
    if (lower(word.text[i]) != lower(text[i])) return false;
  return true;
}

APART void count(std::vector<Word> &table, const char *text, std::uint32_t length) {
  const std::uint32_t hash = hash_of(text, length);
  for (std::uint32_t place = hash;; ++place) {
    Word &word = table[place % table.size()];
    if (word.count == 0) word = {hash, 1, length, text};
    else if (word.hash == hash && is_same(word, text, length)) ++word.count;
    else continue;
    return;
  }
}

APART bool is_more_frequent(const Word &a, const Word &b) {
  return a.count != b.count ? a.count > b.count : a.hash < b.hash;
}

APART std::uint64_t digest(const std::string &text) {
  std::vector<Word> table(4096);
  for (std::size_t end = 0; end < text.size();) {
    std::size_t begin = end;
    while (begin < text.size() && !is_letter(text[begin])) ++begin;
    end = begin;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end > begin) count(table, text.data() + begin, std::uint32_t(end - begin));
  }
  std::sort(table.begin(), table.end(), is_more_frequent);
  std::uint64_t sum = 0;
  for (int i = 0; i < 20; ++i) sum = sum * 31 + table[i].count + table[i].hash;
  return sum;
}

}  // namespace

SPEEDWELL_BENCHMARK(words) {
  std::string text;
  std::uint32_t random = 99;
  for (int i = 0; i < 4000; ++i) {
    random = random * 1664525 + 1013904223;
    const std::uint32_t word = (random >> 12) % 600;
    for (std::uint32_t k = 0; k <= random >> 28; ++k) text += char('a' + (word * 7 + k * (word % 5 + 1)) % 26);
    text += (random & 64) ? ' ' : '\n';
  }
  for (auto _ : bench) speedwell::keep(digest(text));
}
